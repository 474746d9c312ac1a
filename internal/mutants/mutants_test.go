package mutants

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/conformance"
)

var (
	table = flag.Bool("table", false, "try all rules on each mutant, and print which failed, and which rules no mutant breaks")
	only  = flag.String("only", "", "try only the mutants with this in their names")
)

// patience limits the time of a suite on a mutant. Suites that end take a second.
const patience = 3 * time.Minute

// A result is what a suite found on a mutant.
type result struct {
	mutant Mutant
	suite  string
	failed []string
	ended  []string // the failed rules that had to be ended by force
	said   string   // the output of the last child
	err    error
}

// The rules that a mutant breaks fail on it. The control comes first: without a mutant, all rules hold.
func TestMutants(t *testing.T) {
	rules := make(map[string][]string) // of each suite
	for _, suite := range suites {
		t.Run(suite, func(t *testing.T) {
			for _, r := range (Mutant{}).try(t, suite, nil).Results {
				rules[suite] = append(rules[suite], r.Rule)
			}
		})
	}
	results := tryAll(t)
	for _, r := range results {
		if r.err != nil {
			t.Errorf("mutant %q, suite %s: %v", r.mutant.Name, r.suite, r.err)
			continue
		}
		want := r.mutant.Rules[r.suite]
		assert.NotEmpty(t, want, "mutant %q breaks no rule of suite %s; %q failed", r.mutant.Name, r.suite, r.failed)
		for _, rule := range want {
			if !slices.Contains(rules[r.suite], rule) {
				t.Errorf("mutant %q breaks %s, which is no rule of suite %s", r.mutant.Name, rule, r.suite)
			} else if !slices.Contains(r.failed, rule) {
				t.Errorf("mutant %q: rule %s of suite %s does not find it; those that do: %q\n%s", r.mutant.Name, rule, r.suite, r.failed, r.said)
			}
		}
	}
	if *only == "" {
		checkUnbroken(t, rules, results)
	}
	if *table {
		for _, r := range results {
			fmt.Printf("%s (%s)\n    %s\n", r.mutant.Name, r.suite, strings.Join(r.failed, " "))
		}
		for _, rule := range slices.Sorted(maps.Keys(unbroken)) {
			fmt.Printf("no mutant: %s (%s)\n", rule, unbroken[rule])
		}
	}
}

// checkUnbroken compares the rules that no mutant breaks with the known ones.
func checkUnbroken(t *testing.T, rules map[string][]string, results []result) {
	broken, all := make(map[string]bool), make(map[string]bool)
	for _, r := range results {
		for _, rule := range r.mutant.Rules[r.suite] {
			broken[rule] = true
		}
	}
	for _, suite := range rules {
		for _, rule := range suite {
			all[rule] = true
		}
	}
	for rule := range all {
		switch _, known := unbroken[rule]; {
		case !broken[rule] && !known:
			t.Errorf("no mutant breaks rule %s", rule)
		case broken[rule] && known:
			t.Errorf("a mutant breaks rule %s: take it off the list of those that none breaks", rule)
		}
	}
	for rule := range unbroken {
		assert.True(t, all[rule], "%s is no rule, and on the list of those that no mutant breaks", rule)
	}
}

// child returns the program that runs a suite on a mutant: this one, or one without the race detector,
// which is faster, as mutants are not about races.
func child(t *testing.T) string {
	if !raced {
		self, err := os.Executable()
		require.NoError(t, err)
		return self
	}
	path := filepath.Join(t.TempDir(), "mutants.test")
	if out, err := exec.Command("go", "test", "-race=false", "-c", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("go test -c: %v\n%s", err, out)
	}
	return path
}

// tryAll runs the suites, as many in parallel as there are processors.
func tryAll(t *testing.T) []result {
	var results []result
	for _, m := range All() {
		for _, suite := range slices.Sorted(maps.Keys(m.Rules)) {
			if strings.Contains(m.Name, *only) {
				results = append(results, result{mutant: m, suite: suite})
			}
		}
	}
	program := child(t)
	free := make(chan struct{}, runtime.NumCPU())
	var trying sync.WaitGroup
	for i := range results {
		trying.Go(func() {
			free <- struct{}{}
			results[i].try(t, program)
			<-free
		})
	}
	trying.Wait()
	return results
}

// ran finds the rules that a child began to run.
var ran = regexp.MustCompile(`=== RUN +TestSuite/rules/(\S+)`)

// try runs the suite on the mutant in another process. A rule that ends that process has failed, too, and
// try runs the others again without it.
func (r *result) try(t *testing.T, program string) {
	scratch := t.TempDir() // for the report, and for the histories of rules that fail as they should
	path := filepath.Join(scratch, "report")
	for {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		// With -test.short, like make test: what that leaves out finds no mutant.
		cmd := exec.CommandContext(ctx, program, "-test.run="+r.pattern(), "-test.v", "-test.short", "-test.cpu=1")
		cmd.Env = append(os.Environ(), "TMPDIR="+scratch, envMutant+"="+r.mutant.Name, envSuite+"="+r.suite, envReport+"="+path,
			envWithout+"="+strings.Join(slices.Concat(r.mutant.Endless, r.ended), ","))
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		failed := cmd.Run() // it fails as it should; the report says why
		cancel()
		r.said = out.String()
		if text, err := os.ReadFile(path); err == nil {
			r.read(text)
			return
		}
		began := ran.FindAllStringSubmatch(r.said, -1)
		if len(began) == 0 || len(r.ended) == 10 {
			r.err = fmt.Errorf("no report (%v), and rules that ended the program: %q\n%s", failed, r.ended, r.said)
			return
		}
		r.ended = append(r.ended, began[len(began)-1][1])
		t.Logf("mutant %q, suite %s: rule %s ended the program", r.mutant.Name, r.suite, r.ended[len(r.ended)-1])
	}
}

// pattern matches the rules that the mutant breaks, or all rules for the table.
func (r *result) pattern() string {
	if *table {
		return "^TestSuite$"
	}
	var each []string
	for _, rule := range r.mutant.Rules[r.suite] {
		group, name, _ := strings.Cut(rule, "/")
		each = append(each, fmt.Sprintf("^TestSuite$/^rules$/^%s$/^%s$", group, name))
	}
	return strings.Join(each, "|")
}

// read takes the failed rules from a report.
func (r *result) read(text []byte) {
	var report conformance.Report
	if r.err = json.Unmarshal(text, &report); r.err != nil {
		return
	}
	r.failed = slices.Clone(r.ended)
	for _, one := range report.Results {
		if one.Outcome == conformance.Failed {
			r.failed = append(r.failed, one.Rule)
		}
	}
	slices.Sort(r.failed)
}
