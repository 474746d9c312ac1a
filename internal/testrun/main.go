// Command testrun runs this project's tests in tiers, prints in short what became of
// them, and keeps the rest in files.
//
//	testrun [-service zookeeper] [-turn n] test    everything once
//	testrun rest                                   what test leaves out
//	testrun [-budget 1h] all                       both, one after the other; of rest what ends in time
//	testrun times                                  what took longest in the last run; all of it is in times.txt
//	testrun summary                                what go test said of each package of the last run
//
// plan.go says what belongs to which tier. The files are in the folder .test: events.json,
// what go test -json printed; matrix.txt, every rule on every combination of a strategy and
// a service; and output.txt, what go test without -json would have printed.
//
// It ends with go test's own exit code, the first that tells of a failure; whichever test fails,
// the rest is run. What does not compile ends the run before the first test. On Linux a signal
// ends all that a run has started.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/elector-go/elector/internal/attempt"
)

// folder has what the last run left, for times, summary and whoever wants to read more.
const folder = ".test"

// A stopped is why a run ends early: testrun was sent a signal.
type stopped struct{ syscall.Signal }

func (s stopped) Error() string { return s.Signal.String() }

// code is the exit code that shells give to what a signal has ended.
func (s stopped) code() int { return 128 + int(s.Signal) }

func main() {
	if len(os.Args) > 1 && os.Args[1] == metered {
		exit(meter(os.Args[2:]))
	}
	ctx, stop := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	go func() {
		s, _ := (<-signals).(syscall.Signal) // as all of them are
		stop(stopped{s})
	}()
	exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func exit(code int, err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
		code = cmp.Or(code, 1)
	}
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (code int, err error) {
	flags := flag.NewFlagSet("testrun", flag.ContinueOnError)
	flags.SetOutput(stderr)
	service := flags.String("service", "", "only what concerns this one: "+strings.Join(services, ", "))
	budget := flags.Duration("budget", 0, "of all, leave out what test leaves out and what would not end in this time; 0 leaves nothing out")
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
		return runTier(ctx, tier(what), *service, *turn, *budget, stdout)
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
	timesFile  = "times.txt"
	turnFile   = "turn"
	// programs has a folder for each call of go test, with the meters' records and the profiles.
	programs = "programs"
)

// runTier runs the stages of a tier, one after the other, whatever became of those before,
// until ctx ends. With a budget other than 0 it leaves out the stages of restTier that
// would not end within it, and says which.
func runTier(ctx context.Context, t tier, service string, turn int, budget time.Duration, stdout io.Writer) (code int, err error) {
	if err := os.RemoveAll(filepath.Join(folder, programs)); err != nil {
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
	if err := compile(ctx, stages); err != nil && ctx.Err() == nil {
		return 1, err
	}
	all := outcome{screen: stdout, file: files[1]}
	events := json.NewEncoder(files[0])
	left := len(stages)
	p := pace{budget: budget - time.Since(begun)}
	for i, s := range stages {
		if ctx.Err() != nil {
			break
		}
		left--
		if budget != 0 && !p.allows(s) {
			fmt.Fprintf(stdout, "[%d/%d] %s: LEFT OUT, it would not end in time\n", i+1, len(stages), s.name)
			all.leftOut = append(all.leftOut, s)
			continue
		}
		s.slowness = slowness()
		fmt.Fprintf(stdout, "[%d/%d] %s%s\n", i+1, len(stages), s.name, s.said())
		at := time.Now()
		c, e := tryStage(ctx, s, &all, events)
		code, err = cmp.Or(code, c), errors.Join(err, e)
		p.took(s, time.Since(at))
	}
	var by stopped
	switch {
	case errors.As(context.Cause(ctx), &by):
		code, err = by.code(), fmt.Errorf("interrupted: %d of %d stages were not run", left, len(stages))
	case all.passed == 0:
		err = errors.Join(err, errors.New("no test has passed"))
	case t == allTiers && service == "":
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
//
// A TestMain that fails makes its program end with code 1, as a test that fails does. Where both
// happen the first one is not noticed here, but when the void test is tried again: its TestMain
// runs there, too.
func tryStage(ctx context.Context, s stage, all *outcome, events *json.Encoder) (code int, err error) {
	broken := len(all.broken)
	code, err = runStage(ctx, s, all, events)
	void := all.takeVoid()
	if ctx.Err() != nil {
		return code, err
	}
	if len(void) > 0 && len(all.broken) == broken {
		code = 0 // go test counts them
	}
	for _, test := range slices.SortedFunc(maps.Keys(void), compareNames) {
		why := void[test]
		for n := 2; why != "" && ctx.Err() == nil; n++ {
			fmt.Fprintf(all.screen, "      VOID %s, as its environment failed: %s\n", test, why)
			if n > attempt.Most {
				all.broken = append(all.broken, name{test.pkg, test.test + fmt.Sprintf(": void %d times, so it could not be tried", attempt.Most)})
				code = cmp.Or(code, 1)
				break
			}
			c, e := runStage(ctx, s.again(test), all, events)
			err = errors.Join(err, e)
			if why = all.takeVoid()[test]; why == "" {
				code = cmp.Or(code, c)
			}
		}
	}
	return code, err
}

func runStage(ctx context.Context, s stage, all *outcome, events *json.Encoder) (code int, err error) {
	all.begin(s)
	records, err := filepath.Abs(filepath.Join(folder, programs, strconv.Itoa(all.runs)))
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
	code, err = s.try(ctx, records, func(e event) {
		keep(e)
		if ctx.Err() == nil { // what is interrupted fails
			all.take(e)
		}
	})
	keep(event{Action: stageEnds, Elapsed: time.Since(begun).Seconds()})
	all.endOfStage()
	if ctx.Err() == nil {
		all.missesCombinations()
	}
	return code, errors.Join(err, lost)
}

// compile has all that the stages need in Go's cache and on the disk, lest the compiler and
// its files get in the way of what waits.
func compile(ctx context.Context, stages []stage) error {
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
		if err := s.compile(ctx); err != nil {
			return err
		}
	}
	// The candidate of internal/chaos whose clock can be stepped has a build of its own. If that
	// fails, its test will say so.
	for _, s := range stages {
		if slices.Contains(s.packages, "internal/chaos") {
			stepped := stage{race: true, packages: []string{"internal/chaos"}}
			_ = stepped.command(ctx, "test", "-run=^TestSteppedCandidate$").Run()
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
