package mutants

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tables of docs/proof.md")

const (
	doc       = "../../docs/proof.md"
	unbrokens = "| rule without a mutant | why |\n|---|---|\n"
	mutants   = "\n| mutant | what it does wrong | the rules that have to find it |\n|---|---|---|\n"
)

// tables are those of docs/proof.md.
func tables() string {
	var b strings.Builder
	b.WriteString(unbrokens)
	for _, rule := range slices.Sorted(maps.Keys(unbroken)) {
		fmt.Fprintf(&b, "| `%s` | %s |\n", rule, unbroken[rule])
	}
	b.WriteString(mutants)
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

// TestDocs checks that docs/proof.md tells of all mutants as they are.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), unbrokens)
	if !ok {
		t.Fatalf("%s has no table that begins with %q", doc, unbrokens)
	}
	after := "" // the tables end where the next section begins
	if i := strings.Index(rest, "\n## "); i >= 0 {
		after = rest[i:]
	}
	want := before + tables() + after
	switch {
	case want == string(text):
	case *update:
		if err := os.WriteFile(doc, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s does not tell of the mutants as they are: go test ./internal/mutants -run TestDocs -args -update", doc)
	}
}
