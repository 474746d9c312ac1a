package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/elector-go/elector/internal/program"
)

// childEnv makes a process measure an errand, which is its value.
const childEnv = "ELECTOR_BENCH_CHILD"

// An errand is what a child process measures. It prints the result as JSON.
type errand struct {
	Service      string
	Addr         string
	Of           string
	N            int
	TTL          time.Duration
	Settle, Rest time.Duration // for joining
	Idle         time.Duration // for handovers
	Samples      int           // of handovers; 0 for joining
	Path         string        // of the election, for a process that is killed
	Companion    bool          // whether it has one; those with many seats use the client library's own election if not
	Graceful     bool          // the process with many seats closes them, and is not killed
}

// errand returns a process that runs an errand.
func (l *lab) errand(ctx context.Context, e errand) (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	e.Service, e.Addr, e.TTL = l.kind.Name, l.service.addr(), cmp.Or(e.TTL, l.cfg.ttl)
	told, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), childEnv+"="+string(told))
	return cmd, nil
}

// inChild runs an errand in a child process.
func (l *lab) inChild(ctx context.Context, e errand, result any) error {
	cmd, err := l.errand(ctx, e)
	if err != nil {
		return err
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("the process to be measured: %w\n%s", err, &said)
	}
	return json.Unmarshal(out, result)
}

// child runs the errand in the child process.
func child(ctx context.Context, told string, stdout io.Writer) error {
	var e errand
	if err := json.Unmarshal([]byte(told), &e); err != nil {
		return err
	}
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.Name == e.Service })
	if i < 0 {
		return fmt.Errorf("no service %q", e.Service)
	}
	l := newLab(config{ttl: e.TTL, at: e.Addr, uncounted: e.Of != ofStandby}, kinds[i], io.Discard)
	switch e.Of {
	case ofMortal:
		return l.mortal(ctx, e, stdout)
	case ofSeated:
		return l.seated(ctx, e, stdout)
	case ofStandby:
		row, err := l.standby(ctx, e)
		if err != nil {
			return err
		}
		return json.NewEncoder(stdout).Encode(row)
	}
	if err := program.EnoughFiles((e.N+fewFirst+1)*l.facts.files + otherFiles); err != nil {
		return err
	}
	c := l.newContest(ctx, e, fmt.Sprintf("/bench-%d", os.Getpid()))
	defer c.end()
	var result any
	var err error
	if e.Samples > 0 {
		result, err = c.handovers()
	} else {
		result, err = c.join()
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(result)
}

// self means this process in the functions below.
const self = "self"

// resident returns the memory in bytes that the system has given to a process.
func resident(pid string) (float64, error) { return kilobytes(pid, "VmRSS") }

// kilobytes returns a value of a process's status, converted to bytes.
func kilobytes(pid, name string) (float64, error) {
	kb, err := proc(pid+"/status", name)
	return kb * 1024, err
}

// written returns how often this process has written to a file or a connection.
func written() (float64, error) { return proc(self+"/io", "syscw") }

// proc reads a number that Linux keeps about a process.
func proc(file, name string) (float64, error) {
	text, err := os.ReadFile("/proc/" + file)
	if err != nil {
		return 0, fmt.Errorf("this can be measured on Linux only: %w", err)
	}
	if number := regexp.MustCompile(`(?m)^` + name + `:\s*(\d+)`).FindSubmatch(text); number != nil {
		return strconv.ParseFloat(string(number[1]), 64)
	}
	return 0, fmt.Errorf("/proc/%s has no %s", file, name)
}
