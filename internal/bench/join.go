package main

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/program"
	"github.com/elector-go/elector/strategy/fair"
)

// fewFirst are in a process before it is measured: with them comes what a process has once.
const fewFirst = 10

// joinRow is what N contenders in a process of their own have cost.
type joinRow struct {
	Of string `json:"of"`
	N  int    `json:"n"`
	// Quiet is how long the process was busy after they had begun to join, all at once,
	// and CPU what it has used of the processors for that.
	Quiet time.Duration `json:"until_quiet_ns"`
	CPU   time.Duration `json:"cpu_ns"`
	// Resident is what each takes of the memory that the process has, Kept what is left of
	// it when the process has given back all that it does not use.
	Resident float64 `json:"resident_bytes_each"`
	Kept     float64 `json:"kept_bytes_each"`
	// While nothing happens, all together.
	RestCPU    time.Duration `json:"cpu_per_minute_ns"`
	RestWrites float64       `json:"writes_per_minute"`
}

type joinResult struct {
	Rows []joinRow `json:"rows"`

	lab *lab
}

func joinPart(ctx context.Context, l *lab) (section, error) {
	result := joinResult{lab: l}
	if _, err := resident(self); err != nil {
		l.say("join: left out: %v", err)
		return result, nil
	}
	measure := func(of string, n int) error {
		l.say("join: %d %s", n, l.called(of))
		var row joinRow
		if err := l.inChild(ctx, errand{Of: of, N: n, Settle: l.settleTime(), Rest: l.cfg.rest}, &row); err != nil {
			return fmt.Errorf("%d %s: %w", n, of, err)
		}
		result.Rows = append(result.Rows, row)
		return nil
	}
	for _, n := range l.cfg.numbers(l.facts) {
		if n > herdN {
			continue
		}
		for _, of := range []string{ofCandidates, ofPlain} {
			if err := measure(of, n); err != nil {
				return nil, err
			}
		}
	}
	return result, measure(ofShared, l.cfg.elections)
}

// called is how the tables call contenders.
func (l *lab) called(of string) string {
	if of == ofPlain {
		return l.service.plain()
	}
	return of
}

// join has a few join, and measures N more.
func (l *lab) join(c *contest, e errand) (row joinRow, err error) {
	row = joinRow{Of: e.Of, N: e.N}
	if e.Of == ofShared {
		if err := l.leaders(c, e); err != nil {
			return row, err
		}
	} else {
		led := make(chan struct{})
		go c.enter(0, func(contender) { close(led) })
		select {
		case <-led:
		case <-c.ctx.Done():
			return row, context.Cause(c.ctx)
		}
	}
	if _, _, err := c.enterAll(1, fewFirst); err != nil {
		return row, err
	}
	_, before, err := c.memory(e.Settle)
	if err != nil {
		return row, err
	}
	if row.Quiet, row.CPU, err = c.enterAll(1+fewFirst, e.N); err != nil {
		return row, err
	}
	taken, kept, err := c.memory(e.Settle)
	if err != nil {
		return row, err
	}
	row.Resident, row.Kept = (taken-before)/float64(e.N), (kept-before)/float64(e.N)
	row.RestCPU, row.RestWrites, err = c.atRest(e.Rest)
	return row, err
}

// leaders has each election that is contended for on one session be led, on another.
func (l *lab) leaders(c *contest, e errand) error {
	at, err := l.service.open(e.Addr, e.TTL)
	if err != nil {
		return err
	}
	shared := backend.Share(at.backend, e.TTL)
	all := make([]elector.Elector, 1+fewFirst+e.N)
	for i := range all {
		all[i], err = elector.New(elector.Config{
			Backend: shared, Strategy: fair.New(), Election: elections(c.path, i), ID: "leads",
		})
		if err != nil {
			return err
		}
	}
	return each(all, func(e elector.Elector) error {
		_, err := e.Campaign(c.ctx)
		return err
	})
}

// enterAll has n contenders more enter, all at once, and returns how long this process was
// busy with that, and what it took of the processors.
func (c *contest) enterAll(first, n int) (time.Duration, time.Duration, error) {
	cpu, began := cpuTime(), time.Now()
	for i := range n {
		go c.enter(first+i, func(contender) { c.fail(fmt.Errorf("contender %d has the seat, too", first+i)) })
	}
	const (
		step = 10 * time.Millisecond
		busy = step / 4 // what heartbeats take is less
		calm = time.Second
	)
	used, until := cpu, began
	for last := cpu; ; {
		if err := program.Sleep(c.ctx, step); err != nil {
			return 0, 0, context.Cause(c.ctx)
		}
		now := cpuTime()
		if now-last > busy {
			used, until = now, time.Now()
		} else if time.Since(until) > calm {
			break
		}
		last = now
	}
	return until.Sub(began), used - cpu, c.await(first - 1 + n)
}

// memory returns what is resident, as it is and when all that is free is given back.
func (c *contest) memory(settle time.Duration) (taken, kept float64, err error) {
	if err := program.Sleep(c.ctx, settle); err != nil {
		return 0, 0, context.Cause(c.ctx)
	}
	if taken, err = resident(self); err != nil {
		return 0, 0, err
	}
	debug.FreeOSMemory()
	kept, err = resident(self)
	return taken, kept, err
}

// atRest returns what a minute costs in which nothing happens.
func (c *contest) atRest(d time.Duration) (time.Duration, float64, error) {
	cpu, began := cpuTime(), time.Now()
	writes, err := written()
	if err != nil {
		return 0, 0, err
	}
	if err := program.Sleep(c.ctx, d); err != nil {
		return 0, 0, context.Cause(c.ctx)
	}
	now, err := written()
	minutes := time.Since(began).Minutes()
	return time.Duration(float64(cpuTime()-cpu) / minutes), (now - writes) / minutes, err
}

func (r joinResult) markdown(w io.Writer) {
	facts := r.lab.facts
	fmt.Fprintf(w, "## %s: joining, memory and rest\n\n", facts.title)
	fmt.Fprintf(w, "Processes of their own. In each, N candidates of one fair election, or N users of %s with its defaults, join all at once while another one has the seat, each on a session and a connection of its own; or N candidates of as many elections, on one session (backend.Share). Session timeout %v. Until quiet: from then until the process has nothing to do, CPU: what it uses for that. Resident: what the system has given to the process (VmRSS), each; kept: when it has given back all that is free (debug.FreeOSMemory); both beyond what it keeps with %d. CPU and writes (calls of write, which are what it sends, and some of the runtime's own) in a minute in which nothing happens, of %v.\n\n",
		r.lab.called(ofPlain), r.lab.cfg.ttl, fewFirst, r.lab.cfg.rest)
	rows := [][]string{{"N", "", "until quiet", "CPU", "resident", "kept", "CPU per minute", "writes per minute"}}
	for _, row := range r.Rows {
		rows = append(rows, []string{
			fmt.Sprint(row.N), r.lab.called(row.Of), ms(row.Quiet), ms(row.CPU), kib(row.Resident), kib(row.Kept), ms(row.RestCPU), fmt.Sprintf("%.0f", row.RestWrites),
		})
	}
	fmt.Fprintln(w, table(rows...))
	if r.lab.cfg.quick {
		return
	}
	for i, row := range r.Rows[:max(len(r.Rows)-1, 0)] {
		if row.Of == ofPlain {
			continue
		}
		other := r.Rows[i+1]
		fmt.Fprintf(w, "- Target at N = %d: within %.1f of %s. Time %s, CPU %s, resident %s, kept %s.\n", row.N, leanTarget, r.lab.called(ofPlain),
			within(float64(row.Quiet), float64(other.Quiet)), within(float64(row.CPU), float64(other.CPU)), within(row.Resident, other.Resident), within(row.Kept, other.Kept))
	}
	fmt.Fprintln(w)
}

// leanTarget is what a candidate may cost, compared with a user of the client library's own lock.
const leanTarget = 1.2

func within(is, other float64) string {
	return fmt.Sprintf("%.2f (%s)", is/other, verdict(is <= leanTarget*other))
}

func kib(bytes float64) string { return fmt.Sprintf("%.0f KiB", bytes/1024) }
