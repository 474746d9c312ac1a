package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// modulePath is that of the library. Packages are shown by their folders.
const modulePath = "github.com/elector-go/elector"

// A stage is one call of go test.
type stage struct {
	name     string
	module   string // the folder of its module, "" for the library's
	race     bool
	packages []string // by their folders in the module
	args     []string
}

// command is go test for the stage, or another command on its packages.
func (s stage) command(verb string, args ...string) *exec.Cmd {
	args = append([]string{verb}, args...)
	if s.race {
		args = append(args, "-race")
	}
	for _, p := range s.packages {
		args = append(args, "./"+p)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = s.module, alone()
	return cmd
}

// compile has all that the stage needs in Go's cache.
func (s stage) compile() error {
	cmd := s.command("list", "-test", "-deps", "-export")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("compile the tests of %s: %w", strings.Join(s.packages, " "), err)
	}
	return nil
}

// run runs the stage, and hands each event to take. Profiles go to the folder.
func (s stage) run(profiles string, take func(event)) (code int, err error) {
	self, err := os.Executable()
	if err != nil {
		return 1, err
	}
	// Vetting is the linters' part. A test on real servers that Go remembers tried nothing.
	args := append([]string{"-json", "-vet=off", "-count=1", "-timeout=20m", "-exec", "'" + self + "' " + metered}, s.args...)
	cmd := s.command("test", args...)
	cmd.Env, cmd.Stderr = append(cmd.Env, profileFolder+"="+profiles), os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return 1, err
	}
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	readErr := each(events, take)
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
}

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
