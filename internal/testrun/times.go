package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// A cost is what something has taken, in seconds.
type cost struct {
	wall, cpu float64
	times     int
	longest   string // where it took longest, and how long
	max       float64
}

// costs are those of the last run.
type costs struct {
	stages, packages, combinations, rules map[string]*cost
	stage                                 string
	began                                 map[name]time.Time // combinations
	parts                                 map[name]bool      // tests with states, which are told by those
}

func at(m map[string]*cost, key string) *cost {
	if m[key] == nil {
		m[key] = new(cost)
	}
	return m[key]
}

// printTimes prints where the time of the last run went: what took longest, and where the rest is.
func printTimes(w io.Writer, folder string) error {
	events, err := os.Open(filepath.Join(folder, eventsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no run has left its times in %s: make test, or make test-all, comes first", folder)
	}
	if err != nil {
		return err
	}
	defer events.Close()
	c := costs{
		make(map[string]*cost), make(map[string]*cost), make(map[string]*cost), make(map[string]*cost), "",
		make(map[name]time.Time), make(map[name]bool),
	}
	if err := each(events, c.take); err != nil {
		return err
	}
	err = filepath.WalkDir(filepath.Join(folder, programs), func(file string, of fs.DirEntry, err error) error {
		if err != nil || of.IsDir() || filepath.Ext(file) != ".prof" {
			return err
		}
		// The other figures are right without it.
		if err := c.takeProfile(file); err != nil {
			fmt.Fprintln(w, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.print(w, folder)
}

// costliest is how many rows of a table are shown; all are in the file.
const costliest = 12

// print prints the tables, each with its costliest rows, and writes them whole into the file.
func (c *costs) print(w io.Writer, folder string) error {
	path := filepath.Join(folder, timesFile)
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	for _, t := range []struct {
		title, what string
		all         map[string]*cost
		note        string
	}{
		{"Stages", "stage", c.stages, "CPU includes the servers, and not go test's own compiling and linking."},
		{"Packages", "package", c.packages, "CPU includes the servers."},
		{"Combinations", "combination", c.combinations, "wall from its first rule to its last. CPU is that of the test's process alone, by its profile."},
		{"Rules", "rule", c.rules, "wall and CPU on all combinations together, side by side. CPU as above."},
	} {
		shown := len(t.all)
		if t.what != "stage" {
			shown = min(shown, costliest)
		}
		for _, to := range []struct {
			io.Writer
			rows int
		}{{w, shown}, {file, len(t.all)}} {
			fmt.Fprintf(to, "\n%s: %s\n\n", t.title, t.note)
			rows(to, t.what, t.all, to.rows)
		}
		if more := len(t.all) - shown; more > 0 {
			fmt.Fprintf(w, "and %d more\n", more)
		}
	}
	fmt.Fprintf(w, "\n%s has all rows.\n", path)
	return file.Close()
}

// rows prints the first n rows of a table, by wall time.
func rows(w io.Writer, what string, all map[string]*cost, n int) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "wall s\tCPU s\tlongest s\t   %s\n", what)
	for _, key := range slices.SortedFunc(maps.Keys(all), func(x, y string) int { return cmp.Compare(all[y].wall, all[x].wall) })[:n] {
		v := all[key]
		where := ""
		if v.times > 1 {
			where = fmt.Sprintf(" (%d times, longest on %s)", v.times, v.longest)
		}
		fmt.Fprintf(t, "%.1f\t%.1f\t%.1f\t   %s%s\n", v.wall, v.cpu, v.max, key, where)
	}
	t.Flush()
}

func (c *costs) take(e event) {
	switch {
	case e.Action == stageBegins:
		c.stage = e.Output
		c.stages[c.stage] = new(cost)
	case e.Action == stageEnds:
		at(c.stages, c.stage).add(e.Elapsed, "")
	case e.Action == programEnds:
		at(c.stages, c.stage).cpu += e.Program.User + e.Program.System
		at(c.packages, e.folder()).cpu += e.Program.User + e.Program.System
	case e.Action == "run" && e.Test != "":
		c.began[name{e.Package, e.Test}] = e.Time
		c.parts[name{e.Package, path.Dir(e.Test)}] = true
	case e.Action != "pass" && e.Action != "fail":
	case e.Test == "":
		at(c.packages, e.folder()).add(e.Elapsed, c.stage)
	default:
		of := name{e.Package, e.Test}
		combination, rule, ok := split(e.Test)
		switch {
		case !ok && strings.HasSuffix(e.Test, "/rules"):
			// What go test says of a test whose subtests run side by side does not count them.
			at(c.combinations, e.folder()+" "+combination).add(e.Time.Sub(c.began[of]).Seconds(), "")
		case ok && !c.parts[of]:
			at(c.rules, rule).add(e.Elapsed, e.folder()+" "+combination)
		}
	}
}

// split tells the combination and the rule of a rule's test, or of one of its states.
func split(test string) (combination, rule string, ok bool) {
	if combination, rule, ok = strings.Cut(test, "/rules/"); ok {
		rule, _, _ = strings.Cut(rule, "/states")
		return combination, rule, true
	}
	return strings.TrimSuffix(test, "/rules"), "", false
}

func (c *cost) add(wall float64, where string) {
	c.wall, c.times = c.wall+wall, c.times+1
	if wall >= c.max {
		c.max, c.longest = wall, where
	}
}

// tagged is a line of go tool pprof -tags: "  1.2s (10.5%): TestX/rules/a/b".
var tagged = regexp.MustCompile(`^\s*([0-9.]+)s \(\s*[0-9.]+%\): (\S+)$`)

// takeProfile adds what a profile tells of the goroutines with a rule's label.
func (c *costs) takeProfile(file string) error {
	switch info, err := os.Stat(file); {
	case err != nil:
		return err
	case info.Size() == 0:
		return fmt.Errorf("%s is empty, as its program was ended by force: its CPU is not in what follows", file)
	}
	cmd := exec.Command("go", "tool", "pprof", "-tags", "-unit=s", file)
	cmd.Env = append(os.Environ(), "PPROF_TMPDIR="+os.TempDir())
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("go tool pprof %s: %w", file, err)
	}
	pkg := strings.TrimSuffix(filepath.Base(file), ".prof")
	if pkg != "conformance" {
		pkg = "backend/" + pkg
	}
	for lines := bufio.NewScanner(strings.NewReader(string(out))); lines.Scan(); {
		m := tagged.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		used, _ := strconv.ParseFloat(m[1], 64)
		if combination, rule, ok := split(m[2]); ok {
			at(c.combinations, pkg+" "+combination).cpu += used
			at(c.rules, rule).cpu += used
		}
	}
	return nil
}
