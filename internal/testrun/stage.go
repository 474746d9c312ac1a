package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"
)

// modulePath is that of the library. Packages are shown by their folders.
const modulePath = "github.com/elector-go/elector"

// A stage is one call of go test.
type stage struct {
	name     string
	tier     tier
	usual    time.Duration // that it takes on two processors with nothing else to do
	module   string        // the folder of its module, "" for the library's
	race     bool
	packages []string // by their folders in the module
	args     []string

	// How many tests of a package run side by side, and how many packages, on a machine as quick
	// as usual; 0 leaves it to go test.
	parallel, programs int
	slowness           float64 // of the machine as the stage begins

	// Which tests: either these combinations, or all that match run and not skip; or these
	// combinations amid all other tests that do. Neither has parts for subtests, and "" is none.
	combinations []combination
	amid         bool
	run, skip    string
}

// picks tells whether the stage tries a test, named without its subtests.
func (s stage) picks(test string) bool {
	matches := func(pattern string) bool { return regexp.MustCompile(pattern).MatchString(test) }
	if len(s.combinations) > 0 && !s.amid {
		return slices.ContainsFunc(s.combinations, func(c combination) bool { return c.test == test })
	}
	return matches(s.run) && (s.skip == "" || !matches(s.skip))
}

// testArgs are the stage's own arguments of go test.
func (s stage) testArgs() []string {
	args := slices.Clone(s.args)
	run, skip := s.run, s.skip
	switch {
	case s.amid:
		skip += "|" + pattern(without(s.combinations))
	case len(s.combinations) > 0:
		run = pattern(s.combinations)
	}
	if run != "" {
		args = append(args, "-run="+run)
	}
	if skip != "" {
		args = append(args, "-skip="+skip)
	}
	return args
}

// command is go test for the stage, or another command on its packages.
func (s stage) command(ctx context.Context, verb string, args ...string) *exec.Cmd {
	args = append([]string{verb}, args...)
	if s.race {
		args = append(args, "-race")
	}
	for _, p := range s.packages {
		args = append(args, "./"+p)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	interruptible(cmd)
	cmd.WaitDelay = 10 * time.Second // for what does not heed an interrupt
	cmd.Dir, cmd.Env = s.module, alone()
	return cmd
}

// compile has all that the stage needs in Go's cache.
func (s stage) compile(ctx context.Context) error {
	cmd := s.command(ctx, "list", "-test", "-deps", "-export")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("compile the tests of %s: %w", strings.Join(s.packages, " "), err)
	}
	return nil
}

// try runs the stage, and hands each event to take. The meters' records and the profiles go to
// the folder; each record is in an event before that of its package's end.
func (s stage) try(ctx context.Context, folder string, take func(event)) (code int, err error) {
	self, err := os.Executable()
	if err != nil {
		return 1, err
	}
	// Vetting is the linters' part. A test on real servers that Go remembers tried nothing.
	args := append([]string{"-json", "-vet=off", "-count=1", "-timeout=60m", "-exec", "'" + self + "' " + metered}, slices.Concat(s.testArgs(), s.fit())...)
	cmd := s.command(ctx, "test", args...)
	cmd.Env, cmd.Stderr = append(cmd.Env, programsFolder+"="+folder), os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return 1, err
	}
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	var recordErr error
	readErr := each(events, func(e event) {
		if e.Test == "" && (e.Action == "pass" || e.Action == "fail") {
			p, err := readProgram(folder, e.Package)
			recordErr = errors.Join(recordErr, err)
			if p != nil {
				take(event{Action: programEnds, Package: e.Package, Program: p})
			}
		}
		take(e)
	})
	readErr = errors.Join(readErr, recordErr)
	waitErr := cmd.Wait()
	var exit *exec.ExitError
	switch {
	case errors.As(waitErr, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode(), readErr
	case errors.Join(waitErr, readErr) != nil:
		return 1, errors.Join(waitErr, readErr)
	}
	return 0, nil
}

// An event is a line that go test -json prints; see go doc test2json.
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64 // in seconds
	Time                                      time.Time
	Program                                   *program `json:",omitempty"` // with programEnds
}

// Events of testrun's own: a stage begins, and ends; and a test's program has ended, as its meter
// has recorded.
const (
	stageBegins = "stage-begins"
	stageEnds   = "stage-ends"
	programEnds = "program-ends"
)

// folder is that of the event's package.
func (e event) folder() string {
	if e.Package == modulePath {
		return "."
	}
	return strings.TrimPrefix(e.Package, modulePath+"/")
}

// each calls do for each event. What is no event is passed on as output: go test
// prints some errors of its own as they are.
func each(r io.Reader, do func(event)) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			e := event{}
			if json.Unmarshal([]byte(line), &e) != nil {
				e = event{Action: "output", Output: line}
			}
			do(e)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
