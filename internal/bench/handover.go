package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/internal/program"
	"github.com/elector-go/elector/strategy/catalog"
	"github.com/elector-go/elector/strategy/fair"
)

const (
	// target is what the median of a fair handover may be, in raw limits, and
	// spread by how much the messages per handover may differ between N.
	target, spread = 1.3, 0.2
	// fallbackN is measured instead where the machine cannot hold more.
	fallbackN = 2000
	// otherFiles is how many open files the process has beside the candidates' connections.
	otherFiles = 200
	// countCycles is how many handovers messages are counted over.
	countCycles = 50
)

// A handoverRow is what was measured with one number of candidates.
type handoverRow struct {
	n                      int
	enrol                  time.Duration
	raw, claimed, handover dist
	messages, reentry      float64
	trouble                int64
}

func (r handoverRow) ratio() float64 { return ratio(r.handover.P50, r.raw.P50) }

// strategyParts measure the handovers of each strategy.
func strategyParts() (all []part) {
	for _, item := range catalog.All() {
		most := maxN
		if item.Herd {
			most = herdN
		}
		all = append(all, part{item.Strategy.Name(), true, func(ctx context.Context, l *lab) (section, error) {
			return handovers(ctx, l, item.Strategy, most)
		}})
	}
	return all
}

func handovers(ctx context.Context, l *lab, s elector.Strategy, most int) (section, error) {
	r, err := l.newRawPair(ctx)
	if err != nil {
		return section{}, err
	}
	defer r.close()
	var rows []handoverRow
	var notes []string
	for _, n := range l.cfg.numbers(l.facts) {
		if n > most {
			continue
		}
		row, err := l.handoversAt(ctx, r, s, n)
		if err != nil && n > fallbackN && ctx.Err() == nil {
			note := fmt.Sprintf("N = %d could not be held here (%v); N = %d instead.", n, err, fallbackN)
			l.say("%s", note)
			notes = append(notes, note)
			row, err = l.handoversAt(ctx, r, s, fallbackN)
		}
		if err != nil {
			return section{}, fmt.Errorf("with N = %d: %w", n, err)
		}
		rows = append(rows, row)
	}
	t := l.handoverTable(s, rows)
	t.Notes = append(notes, t.Notes...)
	return section{fmt.Sprintf("%s: handover, %s", l.facts.title, s.Name()), []table{t}}, nil
}

// handoversAt enrols n candidates and measures.
func (l *lab) handoversAt(ctx context.Context, r *rawPair, s elector.Strategy, n int) (row handoverRow, err error) {
	l.say("%s: N = %d: enrolling", s.Name(), n)
	if err := program.EnoughFiles(n*l.facts.files + otherFiles); err != nil {
		return row, err
	}
	path := fmt.Sprintf("/bench/%s-%d", s.Name(), n)
	f, err := newField(ctx, n, s, path, l.opener())
	if err != nil {
		return row, err
	}
	defer func() {
		l.say("%s: N = %d: closing", s.Name(), n)
		err = errors.Join(err, f.close())
	}()
	row.n = n
	if row.enrol, err = f.enrol(l.cfg.join); err != nil {
		return row, err
	}
	l.say("%s: N = %d: enrolled in %v, taking %d samples", s.Name(), n, row.enrol.Round(time.Millisecond), l.cfg.samples)
	if row.raw, row.claimed, row.handover, err = sampleInTurn(f, r, l.cfg, claimsSeat(s)); err != nil {
		return row, err
	}
	l.say("%s: N = %d: raw %s, handover %s; counting messages", s.Name(), n, ms(row.raw.P50), ms(row.handover.P50))
	if row.messages, row.reentry, err = l.countMessages(f); err != nil {
		return row, err
	}
	row.trouble = f.trouble.Load()
	return row, nil
}

// sampleInTurn takes one raw sample, one handover and so on, each from the same
// idle state. Which of them comes first changes from turn to turn, lest one always
// profits from what another leaves behind. Of a strategy whose waiting candidates
// have to claim the seat, it also takes what bare clients need for that.
func sampleInTurn(f *field, r *rawPair, cfg config, claims bool) (raw, claimed, handover dist, err error) {
	idle := func() error { return f.idle(cfg.idle) }
	var raws, claimeds, handovers []time.Duration
	kinds := []func() error{
		func() error {
			d, err := r.sample(f.Context(), idle)
			raws = append(raws, d)
			return err
		},
		func() error {
			if err := idle(); err != nil {
				return err
			}
			d, old, err := f.handover()
			if err == nil {
				f.enter(old)
			}
			handovers = append(handovers, d)
			return err
		},
	}
	if claims {
		kinds = append(kinds, func() error {
			d, err := r.sampleClaim(f.Context(), idle)
			claimeds = append(claimeds, d)
			return err
		})
	}
	for range cfg.samples {
		for _, sample := range kinds {
			if err := sample(); err != nil {
				return raw, claimed, handover, err
			}
		}
		slices.Reverse(kinds)
	}
	return summarize(raws), summarize(claimeds), summarize(handovers), nil
}

// claimsSeat tells whether a waiting candidate has to write before it leads: where there is
// no order, whoever is woken races, and the best of those that are ranked takes the seat.
func claimsSeat(s elector.Strategy) bool {
	item, _ := catalog.Named(s.Name()) // it is from there
	return !item.Ordered || item.Ranked
}

// countMessages returns the messages per handover, and for the old leader to enter
// again.
func (l *lab) countMessages(f *field) (handover, reentry float64, err error) {
	cycles := min(countCycles, l.cfg.samples)
	count := func(to *float64) error {
		if err := f.idle(l.cfg.idle); err != nil {
			return err
		}
		n, err := l.service.messages()
		*to += float64(n) / float64(cycles)
		return err
	}
	for range cycles {
		var between float64
		if err := count(&between); err != nil {
			return 0, 0, err
		}
		_, old, err := f.handover()
		if err != nil {
			return 0, 0, err
		}
		if err := count(&handover); err != nil {
			return 0, 0, err
		}
		f.enter(old)
		if err := count(&reentry); err != nil {
			return 0, 0, err
		}
	}
	return handover, reentry, nil
}

func (l *lab) handoverTable(s elector.Strategy, rows []handoverRow) table {
	cfg, facts := l.cfg, l.facts
	t := table{Head: []string{"N", "all in", "samples", "raw p50", "p90", "p99", "handover p50", "p90", "p99", "p50 / raw p50", "messages", "re-entry"}}
	if s.Name() != fair.New().Name() && cfg.parts["fair"] {
		t.About = "For comparison; taken as above."
	} else {
		t.About = fmt.Sprintf("N candidates with %s, in one process, at one %s server. A handover is the delay from just before the leader's Resign to the return of the next Campaign, in the goroutine that called it. The resigned one then enters again. The raw limit is taken in turn with it, sample by sample, in the same process, while the N candidates are enrolled: %s. Before every sample of either kind nothing moves for %v. %s Session timeout %v.\n\n"+
			"Messages are counted per handover, until all is still again, over %d of them; and for the old leader to enter again. %s \"All in\" is the time until N candidates stand in the queue, up to %d at a time, connecting included.",
			facts.clients, facts.title, facts.raw, cfg.idle, facts.sync, cfg.ttl, min(countCycles, cfg.samples), facts.messages, cfg.join)
	}
	claims := claimsSeat(s)
	if claims {
		t.About += "\n\nHere the winner has to write after the notice, and so does the bare client in a third kind of sample, taken in turn with the others: from just before the deletion until the watcher's own claim, one transaction that writes one key and creates another, has returned."
		t.Head = append(t.Head, "raw notice and claim p50", "p50 / that")
	}
	for _, r := range rows {
		cells := []any{
			r.n, r.enrol, r.handover.N, r.raw.P50, r.raw.P90, r.raw.P99, r.handover.P50, r.handover.P90, r.handover.P99,
			r.ratio(), tenth(r.messages), tenth(r.reentry),
		}
		if claims {
			cells = append(cells, r.claimed.P50, ratio(r.handover.P50, r.claimed.P50))
		}
		t.add(cells...)
		t.noteTrouble(r.n, r.trouble)
	}
	if s.Name() != fair.New().Name() || len(rows) == 0 || cfg.quick {
		return t
	}
	worst, least, most := 0.0, math.Inf(1), 0.0
	for _, r := range rows {
		worst, least, most = max(worst, r.ratio()), min(least, r.messages), max(most, r.messages)
	}
	t.note("Target: p50 within %.1f raw limits at every N. %s: %.2f at most.", target, verdict(worst <= target), worst)
	t.note("Target: messages per handover the same at every N within %.0f %%. %s: %.1f to %.1f.", 100*spread, verdict(0 < least && most <= least*(1+spread)), least, most)
	return t
}

func (t *table) noteTrouble(n int, times int64) {
	if times > 0 {
		t.note("N = %d: %d times a session was suspended or lost, or a campaign began again.", n, times)
	}
}
