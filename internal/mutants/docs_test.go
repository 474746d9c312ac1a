package mutants

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the tables of README.md")

const (
	readme = "README.md"
	proof  = "../../docs/proof.md" // contains only the counts
	marker = "<!-- TestDocs writes the rest of this page. -->\n"
)

// tables returns the part of README.md after the marker.
func tables() string {
	var b strings.Builder
	b.WriteString("\n## Rules that no mutant breaks\n\n| rule | why |\n|---|---|\n")
	for _, rule := range slices.Sorted(maps.Keys(unbroken)) {
		fmt.Fprintf(&b, "| `%s` | %s |\n", rule, unbroken[rule])
	}
	fmt.Fprintf(&b, "\n## The %d mutants\n\n| mutant | what it does wrong | the rules that have to find it |\n|---|---|---|\n", len(All()))
	for _, m := range All() {
		var found []string
		for _, suite := range suites {
			if rules := m.Rules[suite]; len(rules) > 0 {
				found = append(found, fmt.Sprintf("%s: `%s`", suite, strings.Join(rules, "`, `")))
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", m.Name, m.Breaks, strings.Join(found, "; "))
	}
	return b.String()
}

// README.md describes all mutants as they are, and docs/proof.md has their number.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile(readme)
	require.NoError(t, err)
	before, _, ok := strings.Cut(string(text), marker)
	require.True(t, ok, "%s has no line %q", readme, marker)
	want := before + marker + tables()
	switch {
	case want == string(text):
	case *update:
		if err := os.WriteFile(readme, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s does not tell of the mutants as they are: go test ./internal/mutants -run TestDocs -args -update", readme)
	}

	text, err = os.ReadFile(proof)
	require.NoError(t, err)
	for _, count := range []string{fmt.Sprintf("There are %d mutants.", len(All())), fmt.Sprintf("%d rules have no mutant", len(unbroken))} {
		assert.Contains(t, string(text), count, proof)
	}
}
