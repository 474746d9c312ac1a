package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/elector-go/elector/internal/program"
	"github.com/elector-go/elector/strategy/fair"
)

// What the processes are filled with.
const (
	ofCandidates = "candidates"
	ofClients    = "bare clients"
	ofLocks      = "the client library's own locks"
)

// A locker is a service whose client library has a lock of its own.
type locker interface {
	// lock takes a lock that is free, on a connection of its own with the library's defaults.
	lock(ctx context.Context, addr, path string) error
	// await begins to wait for a lock, in the same way.
	await(ctx context.Context, addr, path string) error
}

// fewResident are in a process before it is measured.
const fewResident = 10

// residentEnv tells a process that it is one to be measured, and how.
const residentEnv = "ELECTOR_BENCH_RESIDENT"

// A filling is what one process is filled with. The first few are not counted: with them
// comes what a process has once.
type filling struct {
	Service     string
	Addr        string
	Of          string
	Few, N      int
	TTL, Settle time.Duration
}

// residentRow is what each takes of the memory that the system has given to the process.
type residentRow struct {
	Of string `json:"of"`
	N  int    `json:"n"`
	// Resident is what the process has, and Kept what is left when it has given back all
	// that it does not use.
	Resident float64 `json:"resident_bytes_each"`
	Kept     float64 `json:"kept_bytes_each"`
}

type residentResult struct {
	Rows []residentRow `json:"rows"`

	lab *lab
}

func residentPart(ctx context.Context, l *lab) (section, error) {
	result := residentResult{lab: l}
	if _, err := resident(); err != nil {
		l.say("resident: left out: %v", err)
		return result, nil
	}
	all := []string{ofCandidates, ofClients}
	if _, ok := l.service.(locker); ok {
		all = append(all, ofLocks)
	}
	for _, n := range l.cfg.numbers(l.facts) {
		if n > herdN {
			continue
		}
		for _, of := range all {
			l.say("resident: %d %s", n, of)
			row, err := l.residentOf(ctx, of, n)
			if err != nil {
				return nil, fmt.Errorf("%d %s: %w", n, of, err)
			}
			result.Rows = append(result.Rows, row)
		}
	}
	return result, nil
}

// residentOf has a process of its own filled, and asks it.
func (l *lab) residentOf(ctx context.Context, of string, n int) (row residentRow, err error) {
	self, err := os.Executable()
	if err != nil {
		return row, err
	}
	kind := slices.IndexFunc(kinds, func(k kind) bool { return k.make(l.cfg).facts().title == l.facts.title })
	told, err := json.Marshal(filling{Service: kinds[kind].name, Addr: l.service.Addr(), Of: of, Few: fewResident, N: n, TTL: l.cfg.ttl, Settle: l.settleTime()})
	if err != nil {
		return row, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), residentEnv+"="+string(told))
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return row, fmt.Errorf("the process to be measured: %w\n%s", err, &said)
	}
	return row, json.Unmarshal(out, &row)
}

// fill is what the process to be measured does.
func fill(ctx context.Context, told string, stdout io.Writer) error {
	var f filling
	if err := json.Unmarshal([]byte(told), &f); err != nil {
		return err
	}
	cfg := config{ttl: f.TTL, join: 1}
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == f.Service })
	if i < 0 {
		return fmt.Errorf("no service %q", f.Service)
	}
	s := kinds[i].make(cfg)
	if err := program.EnoughFiles((f.Few+f.N+1)*s.facts().files + otherFiles); err != nil {
		return err
	}
	l := &lab{cfg: cfg, log: io.Discard, service: s, facts: s.facts()}
	add, err := l.filler(ctx, f)
	if err != nil {
		return err
	}
	var taken [2][2]float64 // before and after, as it is and when all that is free is given back
	for i, n := range []int{f.Few, f.N} {
		if err := add(n); err != nil {
			return err
		}
		if err := program.Sleep(ctx, f.Settle); err != nil {
			return err
		}
		for j, prepare := range []func(){func() {}, debug.FreeOSMemory} {
			prepare()
			if taken[i][j], err = resident(); err != nil {
				return err
			}
		}
	}
	per := func(j int) float64 { return (taken[1][j] - taken[0][j]) / float64(f.N) }
	return json.NewEncoder(stdout).Encode(residentRow{Of: f.Of, N: f.N, Resident: per(0), Kept: per(1)})
}

// filler returns what adds n more to the process. They end with it.
func (l *lab) filler(ctx context.Context, f filling) (add func(n int) error, err error) {
	path := fmt.Sprintf("/bench-resident-%d", os.Getpid())
	var one func() error
	switch f.Of {
	case ofCandidates:
		all, err := newField(ctx, f.Few+f.N+1, fair.New(), path, func() (seat, error) { return l.service.open(f.Addr, f.TTL) })
		if err != nil {
			return nil, err
		}
		all.enter(all.Candidates[0])
		if _, err := all.Next(); err != nil {
			return nil, err
		}
		one = func() error {
			all.enter(all.Candidates[all.present])
			return all.Await(all.present - 1)
		}
	case ofClients:
		owner, err := l.service.connect(ctx, f.Addr, f.TTL)
		if err != nil {
			return nil, err
		}
		if err := owner.create(ctx, path); err != nil {
			return nil, err
		}
		one = func() error {
			c, err := l.service.connect(ctx, f.Addr, f.TTL)
			if err != nil {
				return err
			}
			return c.stand(ctx, path)
		}
	case ofLocks:
		locks := l.service.(locker)
		if err := locks.lock(ctx, f.Addr, path); err != nil { // which the others wait for
			return nil, err
		}
		one = func() error { return locks.await(ctx, f.Addr, path) }
	}
	return func(n int) error {
		for range n {
			if err := one(); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// resident is the memory in bytes that this process has.
func resident() (float64, error) {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0, fmt.Errorf("what is resident can be measured on Linux only: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), "VmRSS:"); ok {
			kb, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			return kb * 1024, err
		}
	}
	return 0, errors.Join(errors.New("/proc/self/status has no VmRSS"), lines.Err())
}

func (r residentResult) markdown(w io.Writer) {
	fmt.Fprintf(w, "## %s: memory of processes\n\n", r.lab.facts.title)
	fmt.Fprintf(w, "Processes of their own, each filled with N waiting candidates of one fair election, as many bare clients that watch one key, or as many of %s with its defaults; all have %s and enter one after the other. What the system says that is resident (VmRSS), as the difference to before, when %d were there already, per one; kept is what remains when the process has given back all that it does not use (debug.FreeOSMemory). All have sent heartbeats.\n\n", ofLocks, r.lab.facts.clients, fewResident)
	rows := [][]string{{"N", "", "resident", "kept"}}
	for _, row := range r.Rows {
		rows = append(rows, []string{fmt.Sprint(row.N), row.Of, fmt.Sprintf("%.0f KiB", row.Resident/1024), fmt.Sprintf("%.0f KiB", row.Kept/1024)})
	}
	fmt.Fprintln(w, table(rows...))
}
