// Command testrun runs this project's tests in tiers, prints in short what became of
// them, and keeps the rest in files.
//
//	testrun [-service zookeeper] [-turn n] test    everything once
//	testrun rest                                   what test leaves out
//	testrun all                                    both, one after the other
//	testrun times                                  where the time of the last run went
//	testrun summary                                what go test said of each package of the last run
//
// plan.go says what belongs to which tier. The files are in the folder .test: events.json,
// what go test -json printed; matrix.txt, every rule on every combination of a strategy and
// a service; and output.txt, what go test without -json would have printed.
//
// It ends with go test's own exit code, the first that tells of a failure; whatever fails,
// the rest is run.
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/elector-go/elector/internal/attempt"
)

// folder has what the last run left, for times, summary and whoever wants to read more.
const folder = ".test"

func main() {
	// An interrupt goes to go test, too, which then ends; so does this.
	signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	code, err := run(os.Args[1:], os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
		code = cmp.Or(code, 1)
	}
	os.Exit(code)
}

func run(args []string, stdout, stderr io.Writer) (code int, err error) {
	if len(args) > 0 && args[0] == metered {
		return meter(args[1:])
	}
	flags := flag.NewFlagSet("testrun", flag.ContinueOnError)
	flags.SetOutput(stderr)
	service := flags.String("service", "", "only what concerns this one: "+strings.Join(services, ", "))
	turn := flags.Int("turn", -1, "which of the combinations that take turns: from 0; by default the one after the last run's")
	if err := flags.Parse(args); err != nil {
		return 2, nil // said by flags
	}
	switch {
	case flags.NArg() != 1:
		return 2, errors.New("say one of test, rest, all, times and summary")
	case *service != "" && !slices.Contains(services, *service):
		return 2, fmt.Errorf("no service is called %q: say one of %s", *service, strings.Join(services, ", "))
	}
	switch what := flags.Arg(0); what {
	case "times":
		return 0, printTimes(stdout, folder)
	case "summary":
		text, err := os.ReadFile(filepath.Join(folder, lastFile))
		if err != nil {
			return 1, fmt.Errorf("no run has left a summary: make test comes first: %w", err)
		}
		_, err = stdout.Write(text)
		return 0, err
	case "test", "rest", "all":
		if *turn < 0 {
			*turn = nextTurn()
		}
		return runTier(tier(what), *service, *turn, stdout)
	default:
		return 2, fmt.Errorf("%q: say one of test, rest, all, times and summary", what)
	}
}

// nextTurn is the one after the last run's. Without a run, as in a fresh clone, it is the
// number of commits: what takes turns changes from one to the next.
func nextTurn() int {
	text, err := os.ReadFile(filepath.Join(folder, turnFile))
	if err != nil {
		text, _ = exec.Command("git", "rev-list", "--count", "HEAD").Output() // none in an archive
	}
	last, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return last + 1
}

// The files in the folder.
const (
	eventsFile = "events.json"
	outputFile = "output.txt"
	matrixFile = "matrix.txt"
	lastFile   = "summary.txt"
	turnFile   = "turn"
)

// Events of testrun's own in the file: a stage begins, and ends.
const (
	stageBegins = "stage-begins"
	stageEnds   = "stage-ends"
)

// runTier runs the stages of a tier, one after the other, whatever became of those before.
func runTier(t tier, service string, turn int, stdout io.Writer) (code int, err error) {
	if err := os.RemoveAll(folder); err != nil {
		return 1, err
	}
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return 1, err
	}
	if err := os.WriteFile(filepath.Join(folder, turnFile), fmt.Appendln(nil, turn), 0o666); err != nil {
		return 1, err
	}
	var files [4]*os.File
	for i, n := range []string{eventsFile, outputFile, matrixFile, lastFile} {
		if files[i], err = os.Create(filepath.Join(folder, n)); err != nil {
			return 1, err
		}
		defer func() { err = errors.Join(err, files[i].Close()) }()
	}
	packages, err := packages()
	if err != nil {
		return 1, err
	}
	stages := plan(t, service, turn, packages)
	begun := time.Now()
	fmt.Fprintf(stdout, "[0/%d] compile\n", len(stages))
	if err := compile(stages); err != nil {
		return 1, err
	}
	all := outcome{screen: stdout, file: files[1]}
	events := json.NewEncoder(files[0])
	for i, s := range stages {
		fmt.Fprintf(stdout, "[%d/%d] %s\n", i+1, len(stages), s.name)
		c, e := tryStage(s, i, &all, events)
		code, err = cmp.Or(code, c), errors.Join(err, e)
	}
	if t == allTiers && service == "" {
		all.complete()
	}
	if len(all.broken) > 0 {
		code = cmp.Or(code, 1)
	}
	all.reports.print(files[2])
	for _, v := range all.last {
		fmt.Fprint(files[3], v.line)
	}
	all.end(time.Since(begun), turn)
	return code, err
}

// tryStage runs a stage, and tries again what of it is void.
func tryStage(s stage, i int, all *outcome, events *json.Encoder) (code int, err error) {
	broken := len(all.broken)
	code, err = runStage(s, i, all, events)
	void := all.takeVoid()
	if len(void) > 0 && len(all.broken) == broken {
		code = 0 // go test counts them
	}
	for test, why := range void {
		for n := 2; why != ""; n++ {
			fmt.Fprintf(all.screen, "      VOID %s, as its environment failed: %s\n", test, why)
			if n > attempt.Most {
				all.broken = append(all.broken, name{test.pkg, test.test + fmt.Sprintf(": void %d times, so it could not be tried", attempt.Most)})
				code = cmp.Or(code, 1)
				break
			}
			c, e := runStage(s.again(test), i, all, events)
			err = errors.Join(err, e)
			if why = all.takeVoid()[test]; why == "" {
				code = cmp.Or(code, c)
			}
		}
	}
	return code, err
}

func runStage(s stage, i int, all *outcome, events *json.Encoder) (code int, err error) {
	profiles, err := filepath.Abs(filepath.Join(folder, "cpu", strconv.Itoa(i+1)))
	if err != nil {
		return 1, err
	}
	begun := time.Now()
	var lost error
	keep := func(e event) {
		if err := events.Encode(e); err != nil {
			lost = err
		}
	}
	keep(event{Action: stageBegins, Output: s.name})
	code, err = s.run(profiles, func(e event) {
		keep(e)
		all.take(e)
	})
	keep(event{Action: stageEnds, Elapsed: time.Since(begun).Seconds()})
	all.endOfStage()
	return code, errors.Join(err, lost)
}

// compile has all that the stages need in Go's cache and on the disk, lest the compiler and
// its files get in the way of what waits.
func compile(stages []stage) error {
	type build struct {
		module string
		race   bool
	}
	all := make(map[build]stage)
	for _, s := range stages {
		of := build{s.module, s.race}
		packages := append(all[of].packages, s.packages...)
		slices.Sort(packages)
		all[of] = stage{module: s.module, race: s.race, packages: slices.Compact(packages)}
	}
	for _, s := range all {
		if err := s.compile(); err != nil {
			return err
		}
	}
	// The candidate of internal/chaos whose clock can be stepped has a build of its own.
	for _, s := range stages {
		if slices.Contains(s.packages, "internal/chaos") {
			stepped := stage{race: true, packages: []string{"internal/chaos"}}
			if out, err := stepped.command("test", "-run=^TestSteppedCandidate$").CombinedOutput(); err != nil {
				return fmt.Errorf("%w\n%s", err, out)
			}
			break
		}
	}
	return exec.Command("sync").Run()
}

// packages are those of the library's module.
func packages() ([]string, error) {
	cmd := exec.Command("go", "list", "./...")
	cmd.Env, cmd.Stderr = alone(), os.Stderr
	list, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list ./...: %w", err)
	}
	var folders []string
	for _, path := range strings.Fields(string(list)) {
		folders = append(folders, event{Package: path}.folder())
	}
	return folders, nil
}

// alone is the environment in which a module is built by its own go.mod, as its users do.
func alone() []string { return append(os.Environ(), "GOWORK=off") }
