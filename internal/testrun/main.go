// Command testmatrix runs go test with the arguments it is given, prints what go test
// prints, and then, as tables, what the conformance suites have reported: every rule
// on every combination of a strategy and a service.
//
//	go run ./internal/testmatrix -race ./... -- ./conformance -run Clusters
//
// With -- between them it runs go test once with each list of arguments, one after the
// other, whatever became of those before.
//
// Reports of tests called TestElectionOn… and TestConformance… are taken; other tests
// try the suites on something that isn't this library's, or is broken on purpose.
//
// It ends with go test's own exit code, the first that tells of a failure. Results from
// go's cache count: go test repeats what such a test has printed.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
)

func main() {
	// An interrupt goes to go test, too, which then ends; so does this.
	signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	code, err := run(os.Args[1:], os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testmatrix:", err)
	}
	os.Exit(code)
}

func run(args []string, stdout, stderr io.Writer) (code int, err error) {
	var reports reports
	for more := true; more; {
		list := args
		i := slices.Index(args, "--")
		if more = i >= 0; more {
			list, args = args[:i], args[i+1:]
		}
		c, e := test(list, &reports, stdout, stderr)
		code, err = cmp.Or(code, c), errors.Join(err, e)
	}
	reports.print(stdout)
	return code, err
}

// test runs go test once.
func test(args []string, reports *reports, stdout, stderr io.Writer) (code int, err error) {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return 1, err
	}
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	p := printer{out: stdout, tests: make(map[name]*strings.Builder)}
	readErr := each(events, func(e event) {
		p.print(e)
		reports.take(e)
	})
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

// A name is that of a test, with its package.
type name struct{ pkg, test string }

// A printer prints what go test without -v prints: of a test that passed nothing, of
// one that failed all, and a line for each package.
type printer struct {
	out   io.Writer
	tests map[name]*strings.Builder
}

func (p *printer) print(e event) {
	of := name{e.Package, e.Test}
	switch {
	case e.Action == "build-output", e.Action == "output" && e.Test == "":
		if e.Output != "PASS\n" {
			io.WriteString(p.out, e.Output)
		}
	case e.Action == "output":
		if strings.HasPrefix(e.Output, "=== ") {
			return // RUN, PAUSE, CONT, NAME
		}
		if p.tests[of] == nil {
			p.tests[of] = new(strings.Builder)
		}
		p.tests[of].WriteString(e.Output)
	case e.Test != "" && (e.Action == "pass" || e.Action == "skip"):
		delete(p.tests, of)
	case e.Test != "" && e.Action == "fail":
		if said := p.tests[of]; said != nil {
			io.WriteString(p.out, said.String())
		}
		delete(p.tests, of)
	case e.Action == "fail":
		// A test that was running when the package was ended by force has no end.
		for t, said := range p.tests {
			if t.pkg == e.Package {
				io.WriteString(p.out, said.String())
				delete(p.tests, t)
			}
		}
	}
}
