package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/program"
	"github.com/elector-go/elector/strategy/fair"
)

// heartbeatRow is what a number of elections on one session cost while nothing happens
// in any of them.
type heartbeatRow struct {
	Elections  int     `json:"elections"`
	Heartbeats float64 `json:"heartbeats_per_s"` // requests
	Messages   float64 `json:"other_messages_per_s"`
	CPU        float64 `json:"client_cpu_ms_per_s"`
	Routines   float64 `json:"goroutines_per_election"`
}

type heartbeatResult struct {
	Rows []heartbeatRow `json:"rows"`

	ttl, during time.Duration
	lab         *lab
}

func heartbeatsPart(ctx context.Context, l *lab) (section, error) {
	result := heartbeatResult{ttl: 10 * time.Second, during: 20 * time.Second, lab: l}
	elections := []int{1, 1000}
	if l.cfg.quick {
		elections, result.during = []int{1, 20}, time.Second
	}
	for _, n := range elections {
		l.say("heartbeats: %d elections on one session", n)
		row, err := l.heartbeatsOf(ctx, n, result.ttl, result.during)
		if err != nil {
			return nil, fmt.Errorf("with %d elections: %w", n, err)
		}
		result.Rows = append(result.Rows, row)
	}
	return result, nil
}

// heartbeatsOf leads in n elections on one session, and counts.
func (l *lab) heartbeatsOf(ctx context.Context, n int, ttl, during time.Duration) (row heartbeatRow, err error) {
	row.Elections = n
	at, err := l.service.open(l.service.Addr(), ttl)
	if err != nil {
		return row, err
	}
	if at.release != nil {
		defer at.release()
	}
	before := runtime.NumGoroutine()
	shared := backend.Share(at.backend, ttl)
	electors := make([]elector.Elector, n)
	for i := range electors {
		electors[i], err = elector.New(elector.Config{
			Backend: shared, Strategy: fair.New(), ID: "one", Election: fmt.Sprintf("/bench/heartbeats-%d/%d", n, i),
		})
		if err != nil {
			return row, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, patience+during)
	defer cancel()
	defer func() {
		err = errors.Join(err, each(electors, func(e elector.Elector) error { return e.Close(ctx) }))
	}()
	lead := func(e elector.Elector) error {
		_, err := e.Campaign(ctx)
		return err
	}
	if err := each(electors, lead); err != nil {
		return row, err
	}
	// The announcements, and what they wake, are over by then.
	if err := program.Sleep(ctx, l.settleTime()); err != nil {
		return row, err
	}
	row.Routines = float64(runtime.NumGoroutine()-before) / float64(n)
	if _, err := l.service.messages(); err != nil {
		return row, err
	}
	beats, cpu, began := l.service.sent().heartbeats, cpuTime(), time.Now()
	if err := program.Sleep(ctx, during); err != nil {
		return row, err
	}
	beats, cpu = l.service.sent().heartbeats-beats, cpuTime()-cpu
	seconds := time.Since(began).Seconds()
	messages, err := l.service.messages()
	row.Heartbeats, row.Messages = float64(beats)/seconds, float64(messages)/seconds
	row.CPU = float64(cpu) / float64(time.Millisecond) / seconds
	return row, err
}

// each calls do for all, many at a time.
func each[T any](all []T, do func(T) error) error {
	const atATime = 32
	var workers sync.WaitGroup
	errs := make([]error, atATime)
	for w := range atATime {
		workers.Go(func() {
			for i := w; i < len(all) && errs[w] == nil; i += atATime {
				errs[w] = do(all[i])
			}
		})
	}
	workers.Wait()
	return errors.Join(errs...)
}

func (r heartbeatResult) markdown(w io.Writer) {
	fmt.Fprintf(w, "## %s: many elections on one session\n\n", r.lab.facts.title)
	fmt.Fprintf(w, "One process leads in all of them, on one session (backend.Share, timeout %v), and nothing happens for %v. Heartbeats are requests; other messages are as above. CPU is the process's own time, user and system.\n\n", r.ttl, r.during)
	rows := [][]string{{"elections", "heartbeats per s", "other messages per s", "client CPU per s", "goroutines per election"}}
	for _, row := range r.Rows {
		rows = append(rows, []string{
			fmt.Sprint(row.Elections), fmt.Sprintf("%.2f", row.Heartbeats), fmt.Sprintf("%.2f", row.Messages),
			fmt.Sprintf("%.1f ms", row.CPU), fmt.Sprintf("%.2f", row.Routines),
		})
	}
	fmt.Fprintln(w, table(rows...))
}
