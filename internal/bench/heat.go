package main

import (
	"context"
	"fmt"
	"time"

	"github.com/elector-go/elector/internal/crowd"
	"github.com/elector-go/elector/internal/program"
)

// heatPart makes the seat change hands without a pause, and from idle, among contenders in a child process.
func heatPart(ctx context.Context, l *lab) (section, error) {
	rawIdle, rawHot, err := l.rawLimit(ctx)
	if err != nil {
		return section{}, err
	}
	t := table{
		About: fmt.Sprintf("Processes of their own with N candidates of one fair election, or N users of %s with its defaults, each on a session and a connection of its own. A handover is the delay from just before one gives the seat up until the next one has it; the old one enters again right then. Hot: the next one gives it up at once. From idle: after %v. The raw limit is taken before, in this process.",
			l.called(ofPlain), l.cfg.idle),
		Head: []string{"N", "", "samples", "from idle p50", "p90", "p99", "hot p50", "p90", "p99", "hot p50 / raw"},
	}
	row := func(n any, name string, idle, hot crowd.Quantiles) {
		t.add(n, name, hot.N, idle.P50, idle.P90, idle.P99, hot.P50, hot.P90, hot.P99, ratio(hot.P50, rawHot.P50))
	}
	row("", "raw limit", rawIdle, rawHot)
	handover := func(n int) string { return fmt.Sprintf("handover after %v, N = %d", l.cfg.idle, n) }
	hotly := func(n int) string { return fmt.Sprintf("handover without a pause, N = %d", n) }
	for _, n := range l.few() {
		for _, of := range []string{ofCandidates, ofPlain} {
			l.say("heat: %d %s", n, l.called(of))
			var idle, hot crowd.Quantiles
			for _, kind := range []struct {
				idle time.Duration
				to   *crowd.Quantiles
			}{{l.cfg.idle, &idle}, {0, &hot}} {
				if err := l.inChild(ctx, errand{Of: of, N: n, Idle: kind.idle, Samples: l.cfg.samples}, kind.to); err != nil {
					return section{}, fmt.Errorf("%d %s: %w", n, of, err)
				}
			}
			row(n, l.called(of), idle, hot)
			l.sum(handover(n), l.who(of), idle.P50)
			l.sum(hotly(n), l.who(of), hot.P50)
		}
		l.sum(handover(n), "raw limit", rawIdle.P50)
		l.sum(hotly(n), "raw limit", rawHot.P50)
	}
	return section{l.facts.title + ": heat", []table{t}}, nil
}

// handovers passes the seat from one contender to the next, and measures the delay from just before one
// gives it up until the next one has it. The old holder then enters again.
func (c *contest) handovers() (crowd.Quantiles, error) {
	e := c.errand
	err := c.enter(e.N)
	if err != nil {
		return crowd.Quantiles{}, err
	}
	leader, err := c.Next()
	if err == nil {
		err = c.await(e.N - 1)
	}
	if err != nil {
		return crowd.Quantiles{}, err
	}
	give := func(w crowd.Win) error {
		if plain, ok := w.Elector.(*lock); ok {
			return plain.give(c.Context())
		}
		return w.Term.Resign(c.Context())
	}
	const warmups = 20
	var delays []time.Duration
	for i := range warmups + e.Samples {
		if err := program.Sleep(c.Context(), e.Idle); err != nil {
			return crowd.Quantiles{}, err
		}
		old, began := leader, time.Now()
		if err := give(old); err != nil {
			return crowd.Quantiles{}, err
		}
		if leader, err = c.Next(); err != nil {
			return crowd.Quantiles{}, err
		}
		if i >= warmups {
			delays = append(delays, leader.At.Sub(began))
		}
		c.Enter(old.Candidate)
	}
	return crowd.QuantilesOf(delays), nil
}
