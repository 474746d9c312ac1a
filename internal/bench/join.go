package main

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/elector-go/elector/internal/program"
)

const (
	// fewFirst contenders are in a process before it is measured: they bring what a process needs once.
	fewFirst = 10
	// leanTarget limits the cost of a candidate, relative to a user of the client library's own lock.
	leanTarget = 1.2
)

// A joinRow is the cost of N contenders in a child process.
type joinRow struct {
	// Quiet is how long the process was busy after they had begun to join, all in parallel, and CPU the
	// processor time for that.
	Quiet, CPU time.Duration
	// Resident is the memory of the process per contender, and Kept what is left of it after the process
	// has returned all unused memory.
	Resident, Kept float64
	// In a minute in which nothing happens, for all together.
	RestCPU    time.Duration
	RestWrites float64
}

func joinPart(ctx context.Context, l *lab) (section, error) {
	t := table{
		About: fmt.Sprintf("Processes of their own. In each, N candidates of one fair election, or N users of %s with its defaults, join all at once while another one has the seat, each on a session and a connection of its own. The largest N has joined once before, unmeasured, as a server that has just started is slower. Session timeout %v. Until quiet: from then until the process has nothing to do, CPU: what it uses for that. Resident: what the system has given to the process (VmRSS), each; kept: when it has given back all that is free (debug.FreeOSMemory); both beyond what it keeps with %d. With the largest N, CPU and writes (calls of write, which are what it sends, and some of the runtime's own) in a minute in which nothing happens, of %v.",
			l.called(ofPlain), l.cfg.ttl, fewFirst, l.cfg.rest),
		Head: []string{"N", "", "until quiet", "CPU", "resident", "kept", "CPU per minute", "writes per minute"},
	}
	result := func() section { return section{l.facts.title + ": joining, memory and rest", []table{t}} }
	if _, err := resident(self); err != nil {
		l.say("join: left out: %v", err)
		return result(), nil
	}
	numbers := l.few()
	// A server that has just started takes several times as long (Java's compiler), which only the first to be
	// measured would meet.
	for _, of := range []string{ofCandidates, ofPlain} {
		if l.cfg.quick {
			break
		}
		l.say("join: unmeasured, %d %s", slices.Max(numbers), l.called(of))
		if err := l.inChild(ctx, errand{Of: of, N: slices.Max(numbers)}, new(joinRow)); err != nil {
			return section{}, fmt.Errorf("%d %s: %w", slices.Max(numbers), of, err)
		}
	}
	measure := func(of string, n int) (row joinRow, err error) {
		l.say("join: %d %s", n, l.called(of))
		e := errand{Of: of, N: n}
		last := n == slices.Max(numbers)
		if last {
			e.Settle, e.Rest = l.settleTime(), l.cfg.rest
		}
		if err := l.inChild(ctx, e, &row); err != nil {
			return row, fmt.Errorf("%d %s: %w", n, of, err)
		}
		l.sum(fmt.Sprintf("%d join, until quiet", n), l.who(of), row.Quiet)
		if !last {
			t.add(n, l.called(of), row.Quiet, row.CPU, "–", "–", "–", "–")
			return row, nil
		}
		t.add(n, l.called(of), row.Quiet, row.CPU, kib(row.Resident), kib(row.Kept), row.RestCPU, figure{"%.0f", row.RestWrites})
		l.sum(fmt.Sprintf("memory (VmRSS), each of %d", n), l.who(of), kib(row.Resident))
		l.sum(fmt.Sprintf("CPU in a minute of rest, %d", n), l.who(of), row.RestCPU)
		return row, nil
	}
	within := func(is, other float64) string {
		return fmt.Sprintf("%.2f (%s)", is/other, verdict(is <= leanTarget*other))
	}
	for _, n := range numbers {
		own, err := measure(ofCandidates, n)
		if err != nil {
			return section{}, err
		}
		plain, err := measure(ofPlain, n)
		if err != nil {
			return section{}, err
		}
		if l.cfg.quick {
			continue
		}
		t.note("Target at N = %d: within %.1f of %s. Time %s, CPU %s.", n, leanTarget, l.called(ofPlain),
			within(float64(own.Quiet), float64(plain.Quiet)), within(float64(own.CPU), float64(plain.CPU)))
		if own.Resident != 0 {
			t.note("The same of memory and rest. Resident %s, kept %s, CPU %s.", within(own.Resident, plain.Resident), within(own.Kept, plain.Kept),
				within(float64(own.RestCPU), float64(plain.RestCPU)))
		}
	}
	return result(), nil
}

// who returns the summary's name for contenders.
func (l *lab) who(of string) string {
	if of == ofPlain {
		return "own client"
	}
	return "elector"
}

// called returns the tables' name for contenders.
func (l *lab) called(of string) string {
	if of == ofPlain {
		return l.facts.plain
	}
	return of
}

// join makes a few contenders join, and measures N more.
func (c *contest) join() (row joinRow, err error) {
	e := c.errand
	if err := c.enter(1); err != nil {
		return row, err
	}
	if _, err := c.Next(); err != nil {
		return row, err
	}
	if _, _, err := c.enterAll(fewFirst, fewFirst); err != nil {
		return row, err
	}
	_, before, err := c.memory(0)
	if err != nil {
		return row, err
	}
	if row.Quiet, row.CPU, err = c.enterAll(e.N, fewFirst+e.N); err != nil {
		return row, err
	}
	if e.Settle == 0 {
		return row, nil
	}
	taken, kept, err := c.memory(e.Settle)
	if err != nil {
		return row, err
	}
	row.Resident, row.Kept = (taken-before)/float64(e.N), (kept-before)/float64(e.N)
	row.RestCPU, row.RestWrites, err = c.atRest(e.Rest)
	return row, err
}

// enterAll makes n more contenders enter, all in parallel, and returns how long this process was busy with
// that, and its processor time. Then waiting contenders wait.
func (c *contest) enterAll(n, waiting int) (time.Duration, time.Duration, error) {
	cpu, began := cpuTime(), time.Now()
	if err := c.enter(n); err != nil {
		return 0, 0, err
	}
	until, used, err := quiet(c.Context(), patience, func() bool { return false })
	if err != nil {
		return 0, 0, err
	}
	return until.Sub(began), used - cpu, c.await(waiting)
}

// quiet blocks until this process has had nothing to do for a second, and there is no more to come, or for
// a time. It returns when it last had something to do, and its processor time by then.
func quiet(ctx context.Context, within time.Duration, more func() bool) (until time.Time, used time.Duration, err error) {
	const (
		step = 10 * time.Millisecond
		busy = step / 4 // heartbeats take less
		calm = time.Second
	)
	used, until = cpuTime(), time.Now()
	for last, late := used, until.Add(within); time.Since(until) < calm && time.Now().Before(late); {
		if err := program.Sleep(ctx, step); err != nil {
			return until, used, err
		}
		now := cpuTime()
		if now-last > busy || more() {
			used, until = now, time.Now()
		}
		last = now
	}
	return until, used, nil
}

// memory returns the resident memory, before and after all free memory is returned to the system.
func (c *contest) memory(settle time.Duration) (taken, kept float64, err error) {
	if err := program.Sleep(c.Context(), settle); err != nil {
		return 0, 0, err
	}
	if taken, err = resident(self); err != nil {
		return 0, 0, err
	}
	debug.FreeOSMemory()
	kept, err = resident(self)
	return taken, kept, err
}

// atRest returns the cost of a minute in which nothing happens.
func (c *contest) atRest(d time.Duration) (time.Duration, float64, error) {
	cpu, began := cpuTime(), time.Now()
	writes, err := written()
	if err != nil {
		return 0, 0, err
	}
	if err := program.Sleep(c.Context(), d); err != nil {
		return 0, 0, err
	}
	now, err := written()
	minutes := time.Since(began).Minutes()
	return time.Duration(float64(cpuTime()-cpu) / minutes), (now - writes) / minutes, err
}
