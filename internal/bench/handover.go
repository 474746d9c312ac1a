package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/elector-go/elector/internal/program"
	"github.com/elector-go/elector/strategy"
	"github.com/elector-go/elector/strategy/catalog"
)

const (
	// target is the limit for the median of a fair handover, in raw limits, and spread the limit for the
	// variation of the messages per handover with N.
	target, spread = 1.3, 0.2
	// fallbackN is measured instead if the machine cannot hold more.
	fallbackN = 2000
	// otherFiles is how many files the process has open besides the candidates' connections.
	otherFiles = 200
)

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

func handovers(ctx context.Context, l *lab, s strategy.Strategy, most int) (section, error) {
	r, err := l.newRawPair(ctx)
	if err != nil {
		return section{}, err
	}
	defer r.close()
	t := l.handoverTable(s)
	var ratios, messages []float64
	for _, n := range l.cfg.numbers(l.facts) {
		if n > most {
			continue
		}
		row, err := l.handoversAt(ctx, r, s, n)
		if err != nil && n > fallbackN && ctx.Err() == nil {
			t.note("N = %d could not be held here (%v); N = %d instead.", n, err, fallbackN)
			n = fallbackN
			row, err = l.handoversAt(ctx, r, s, n)
		}
		if err != nil {
			return section{}, fmt.Errorf("with N = %d: %w", n, err)
		}
		t.add(row.cells...)
		t.noteTrouble(n, row.trouble)
		ratios, messages = append(ratios, row.ratio), append(messages, row.messages)
	}
	if s.Name() == "fair" && len(ratios) > 0 && !l.cfg.quick {
		worst, least, most := slices.Max(ratios), slices.Min(messages), slices.Max(messages)
		t.note("Target: p50 within %.1f raw limits at every N. %s: %.2f at most.", target, verdict(worst <= target), worst)
		t.note("Target: messages per handover the same at every N within %.0f %%. %s: %.1f to %.1f.", 100*spread, verdict(0 < least && most <= least*(1+spread)), least, most)
	}
	return section{fmt.Sprintf("%s: handover, %s", l.facts.title, s.Name()), []table{t}}, nil
}

func (l *lab) handoverTable(s strategy.Strategy) table {
	cfg, facts := l.cfg, l.facts
	t := table{Head: []string{"N", "all in", "samples", "raw p50", "p90", "p99", "handover p50", "p90", "p99", "p50 / raw p50", "messages", "re-entry", "allocations", "bytes"}}
	if s.Name() != "fair" && cfg.parts["fair"] {
		t.About = "For comparison; taken as above."
	} else {
		t.About = fmt.Sprintf("N candidates with %s, in one process, at one %s server. A handover is the delay from just before the leader's Resign to the return of the next Campaign, in the goroutine that called it. The resigned one then enters again. The raw limit is taken in turn with it, sample by sample, in the same process, while the N candidates are enrolled: %s. Before every sample of either kind nothing moves for %v. %s Session timeout %v.\n\n"+
			"Messages are counted per handover, until all is still again, over %d of them; and for the old leader to enter again. %s Allocations and their bytes are those of the handover, of all candidates. \"All in\" is the time until N candidates stand in the queue, up to %d at a time, connecting included.",
			facts.clients, facts.title, facts.raw, cfg.idle, facts.sync, cfg.ttl, min(countCycles, cfg.samples), facts.messages, cfg.join)
	}
	if claimsSeat(s) {
		t.About += "\n\nHere the winner has to write after the notice, and so does the bare client in a third kind of sample, taken in turn with the others: from just before the deletion until the watcher's own claim, one transaction that writes one key and creates another, has returned."
		t.Head = append(t.Head, "raw notice and claim p50", "p50 / that")
	}
	return t
}

// A handoverRow is the results for one number of candidates.
type handoverRow struct {
	cells           []any
	ratio, messages float64
	trouble         int64
}

// handoversAt enrols n candidates and measures handovers. If the strategy's waiting candidates must claim
// the seat, it also measures bare clients that do so.
func (l *lab) handoversAt(ctx context.Context, r *rawPair, s strategy.Strategy, n int) (row handoverRow, err error) {
	l.say("%s: N = %d: enrolling", s.Name(), n)
	if err := program.EnoughFiles(n*l.facts.files + otherFiles); err != nil {
		return row, err
	}
	m, err := l.newMatch(ctx, r, n, s, fmt.Sprintf("/bench/%s-%d", s.Name(), n))
	if err != nil {
		return row, err
	}
	defer func() {
		l.say("%s: N = %d: closing", s.Name(), n)
		err = errors.Join(err, m.close())
	}()
	enrol, err := m.enrol(l.cfg.join)
	if err != nil {
		return row, err
	}
	l.say("%s: N = %d: enrolled in %v, taking %d samples", s.Name(), n, enrol.Round(time.Millisecond), l.cfg.samples)
	raws := []sampler{r.sample}
	if claimsSeat(s) {
		raws = append(raws, r.sampleClaim)
	}
	handover := bout{before: nothing, do: m.handover, after: m.reenter}
	took, err := m.sample(handover, raws...)
	if err != nil {
		return row, err
	}
	is, raw := took[0], took[1]
	l.say("%s: N = %d: raw %s, handover %s; counting messages", s.Name(), n, ms(raw.P50), ms(is.P50))
	sent, err := m.count(handover)
	if err != nil {
		return row, err
	}
	resigned := func() error { _, err := m.handover(); return err }
	back, err := m.count(bout{before: resigned, do: timed(m.reenter), after: nothing})
	row = handoverRow{ratio: ratio(is.P50, raw.P50), messages: sent.messages, trouble: m.trouble.Load(), cells: []any{
		n, enrol, is.N, raw.P50, raw.P90, raw.P99, is.P50, is.P90, is.P99, ratio(is.P50, raw.P50),
		tenth(sent.messages), tenth(back.messages), figure{"%.0f", sent.allocations}, figure{"%.1f KB", sent.bytes / 1000},
	}}
	for _, claimed := range took[2:] {
		row.cells = append(row.cells, claimed.P50, ratio(is.P50, claimed.P50))
	}
	return row, err
}

// claimsSeat reports whether a waiting candidate must write before it leads.
func claimsSeat(s strategy.Strategy) bool {
	item, _ := catalog.Named(s.Name()) // s comes from the catalog
	return item.Seat
}

func (t *table) noteTrouble(n int, times int64) {
	if times > 0 {
		t.note("N = %d: %d times a session was suspended or lost, or a campaign began again.", n, times)
	}
}
