package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/crowd"
	"github.com/elector-go/elector/internal/program"
	"github.com/elector-go/elector/strategy/fair"
)

// heartbeatsPart measures the cost of elections on one session while nothing happens in any of them.
func heartbeatsPart(ctx context.Context, l *lab) (section, error) {
	const ttl = 10 * time.Second
	elections, during := []int{1, 1000}, 20*time.Second
	if l.cfg.quick {
		elections, during = []int{1, 20}, time.Second
	}
	t := table{
		About: fmt.Sprintf("One process leads in all of them, on one session (backend.Share, timeout %v), and nothing happens for %v. Heartbeats are requests; other messages are as above. CPU is the process's own time, user and system.", ttl, during),
		Head:  []string{"elections", "heartbeats per s", "other messages per s", "client CPU per s", "goroutines per election"},
	}
	for _, n := range elections {
		l.say("heartbeats: %d elections on one session", n)
		row, err := l.heartbeatsOf(ctx, n, ttl, during)
		if err != nil {
			return section{}, fmt.Errorf("with %d elections: %w", n, err)
		}
		t.add(row...)
	}
	return section{l.facts.title + ": many elections on one session", []table{t}}, nil
}

// heartbeatsOf leads in n elections on one session and counts.
func (l *lab) heartbeatsOf(ctx context.Context, n int, ttl, during time.Duration) (row []any, err error) {
	at, err := l.service.open(ttl)
	if err != nil {
		return row, err
	}
	defer at.release()
	before := runtime.NumGoroutine()
	ctx, cancel := context.WithTimeout(ctx, patience+during)
	defer cancel()
	electors, err := leads(ctx, backend.Share(at.backend, ttl), fmt.Sprintf("/bench/heartbeats-%d", n), n)
	defer func() {
		err = errors.Join(append(crowd.Each(electors, func(e elector.Elector) error { return e.Close(ctx) }), err)...)
	}()
	if err != nil {
		return row, err
	}
	// By then the announcements and what they wake are over.
	if err := program.Sleep(ctx, l.settleTime()); err != nil {
		return row, err
	}
	routines := float64(runtime.NumGoroutine()-before) / float64(n)
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
	return []any{n, float64(beats) / seconds, float64(messages) / seconds, figure{"%.1f ms", cpu.Seconds() * 1000 / seconds}, routines}, err
}

// leads leads in n elections and returns the leaders.
func leads(ctx context.Context, b backend.Backend, path string, n int) (all []elector.Elector, err error) {
	for i := range n {
		e, err := elector.New(elector.Config{Backend: b, Strategy: fair.Strategy{}, Election: elections(path, i), ID: "leads"})
		if err != nil {
			return all, err
		}
		all = append(all, e)
	}
	return all, errors.Join(crowd.Each(all, func(e elector.Elector) error {
		_, err := e.Campaign(ctx)
		return err
	})...)
}
