package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/strategy/fair"
	"github.com/elector-go/elector/strategy/kafka"
	"github.com/elector-go/elector/strategy/unfair"
)

const (
	// target is what the median of a fair handover may be, in raw limits, and
	// spread by how much the packets per handover may differ between N.
	target, spread = 1.3, 0.2
	// fallbackN is measured instead where the machine cannot hold more.
	fallbackN = 2000
	// packetCycles is how many handovers packets are counted over.
	packetCycles = 50
)

// handoverRow is what was measured with one number of candidates.
type handoverRow struct {
	N        int           `json:"n"`
	Enrol    time.Duration `json:"enrol_ns"`
	Raw      dist          `json:"raw"`
	Handover dist          `json:"handover"`
	Ratio    float64       `json:"ratio_p50"`
	Packets  float64       `json:"packets_per_handover"`
	Reentry  float64       `json:"packets_per_reentry"`
	SysMB    int           `json:"client_memory_mib"`
	Trouble  int64         `json:"trouble"`
}

type handoverResult struct {
	Strategy string        `json:"strategy"`
	Rows     []handoverRow `json:"rows"`
	Notes    []string      `json:"notes,omitempty"`

	cfg config
}

func fairPart(ctx context.Context, l *lab) (section, error) {
	return handovers(ctx, l, fair.New(), l.cfg.n)
}

func unfairPart(ctx context.Context, l *lab) (section, error) {
	return herd(ctx, l, unfair.New())
}

func kafkaPart(ctx context.Context, l *lab) (section, error) {
	return herd(ctx, l, kafka.New())
}

func herd(ctx context.Context, l *lab, s elector.Strategy) (section, error) {
	var n []int
	for _, i := range l.cfg.n {
		if i <= herdN {
			n = append(n, i)
		}
	}
	return handovers(ctx, l, s, n)
}

func handovers(ctx context.Context, l *lab, s elector.Strategy, numbers []int) (section, error) {
	result := handoverResult{Strategy: s.Name(), cfg: l.cfg}
	r, err := l.newRawPair(ctx, l.zk.Addr(), l.zk.Addr(), "/bench-raw", l.cfg.ttl)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if err := r.warm(ctx, l.warmups()); err != nil {
		return nil, err
	}
	for _, n := range numbers {
		row, err := l.handoversAt(ctx, r, s, n)
		if err != nil && n > fallbackN && ctx.Err() == nil {
			note := fmt.Sprintf("N = %d could not be held here (%v); N = %d instead.", n, err, fallbackN)
			l.say("%s", note)
			result.Notes = append(result.Notes, note)
			row, err = l.handoversAt(ctx, r, s, fallbackN)
		}
		if err != nil {
			return nil, fmt.Errorf("with N = %d: %w", n, err)
		}
		result.Rows = append(result.Rows, row)
	}
	return result, nil
}

// zkBackend is a backend for one candidate among thousands in one process: its
// buffers hold a listing of all of them, but not what the server would allow.
func (l *lab) zkBackend(addr string, ttl time.Duration) (backend.Backend, error) {
	return zookeeper.New(zookeeper.Config{
		Servers: []string{addr}, SessionTimeout: ttl, MaxRequest: 64 << 10, MaxResponse: 1 << 20,
		Dialer: l.pings.dial,
	})
}

// handoversAt enrols n candidates and measures.
func (l *lab) handoversAt(ctx context.Context, r *rawPair, s elector.Strategy, n int) (row handoverRow, err error) {
	l.say("%s: N = %d: enrolling", s.Name(), n)
	if err := enoughFiles(n); err != nil {
		return row, err
	}
	path := fmt.Sprintf("/bench/%s-%d", s.Name(), n)
	f, err := newField(ctx, n, s, path, func() (backend.Backend, error) { return l.zkBackend(l.zk.Addr(), l.cfg.ttl) })
	if err != nil {
		return row, err
	}
	defer func() {
		l.say("%s: N = %d: closing", s.Name(), n)
		err = errors.Join(err, f.close())
	}()
	row.N = n
	if row.Enrol, err = f.enrol(l.cfg.join); err != nil {
		return row, err
	}
	l.say("%s: N = %d: enrolled in %v, taking %d samples", s.Name(), n, row.Enrol.Round(time.Millisecond), l.cfg.samples)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	row.SysMB = int(m.Sys >> 20)
	if row.Raw, row.Handover, err = sampleInTurn(f, r, l.cfg); err != nil {
		return row, err
	}
	row.Ratio = ratio(row.Handover.P50, row.Raw.P50)
	l.say("%s: N = %d: raw %s, handover %s; counting packets", s.Name(), n, ms(row.Raw.P50), ms(row.Handover.P50))
	if row.Packets, row.Reentry, err = l.countPackets(f); err != nil {
		return row, err
	}
	row.Trouble = f.trouble.Load()
	return row, nil
}

// sampleInTurn takes one raw sample, one handover and so on, each from the same
// idle state. Which of the two comes first changes from turn to turn, lest one
// always profits from what the other leaves behind.
func sampleInTurn(f *field, r *rawPair, cfg config) (raw, handover dist, err error) {
	idle := func() error { return f.idle(cfg.idle) }
	var raws, handovers []time.Duration
	for i := range 2 * cfg.samples {
		if i%4 == 0 || i%4 == 3 {
			d, err := r.sample(f.ctx, idle)
			if err != nil {
				return raw, handover, err
			}
			raws = append(raws, d)
			continue
		}
		if err := idle(); err != nil {
			return raw, handover, err
		}
		d, old, err := f.handover()
		if err != nil {
			return raw, handover, err
		}
		f.enter(old)
		handovers = append(handovers, d)
	}
	return summarize(raws), summarize(handovers), nil
}

// countPackets returns the server's packets per handover, and for the old leader
// to enter again.
func (l *lab) countPackets(f *field) (handover, reentry float64, err error) {
	cycles := min(packetCycles, l.cfg.samples)
	m := meter{l: l}
	count := func(to *float64) error {
		if err := f.idle(l.cfg.idle); err != nil {
			return err
		}
		n, err := m.packets()
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

func (r handoverResult) markdown(w io.Writer) {
	fmt.Fprintf(w, "## Handover, %s\n\n", r.Strategy)
	if r.Strategy != fair.New().Name() && r.cfg.parts["fair"] {
		fmt.Fprintf(w, "For comparison; taken as above.\n\n")
	} else {
		r.method(w)
	}
	r.results(w)
}

func (r handoverResult) method(w io.Writer) {
	fmt.Fprintf(w, "N candidates with a connection each, in one process, at one ZooKeeper server. A handover is the delay from just before the leader's Resign to the return of the next Campaign, in the goroutine that called it. The resigned one then enters again. The raw limit is taken in turn with it, sample by sample, in the same process, while the N candidates are enrolled: one bare session deletes an ephemeral node, another's data watch fires. Before every sample of either kind nothing moves for %v. The server %s. Session timeout %v.\n\n",
		r.cfg.idle, syncText(r.cfg), r.cfg.ttl)
	fmt.Fprintf(w, "Packets are those the server has received and sent (mntr) per handover, until all is still again, over %d of them; and for the old leader to enter again. Taken off are heartbeats (pings and syncs, counted where the clients send them) with their answers, and what mntr itself costs (by asking twice in a row). \"All in\" is the time until N candidates stand in the queue, up to %d at a time, connecting included.\n\n",
		min(packetCycles, r.cfg.samples), r.cfg.join)
}

func (r handoverResult) results(w io.Writer) {
	rows := [][]string{{"N", "all in", "samples", "raw p50", "p90", "p99", "handover p50", "p90", "p99", "p50 / raw p50", "packets", "re-entry"}}
	for _, row := range r.Rows {
		rows = append(rows, []string{
			fmt.Sprint(row.N), ms(row.Enrol), fmt.Sprint(row.Handover.N),
			ms(row.Raw.P50), ms(row.Raw.P90), ms(row.Raw.P99),
			ms(row.Handover.P50), ms(row.Handover.P90), ms(row.Handover.P99),
			fmt.Sprintf("%.2f", row.Ratio), fmt.Sprintf("%.1f", row.Packets), fmt.Sprintf("%.1f", row.Reentry),
		})
	}
	fmt.Fprintln(w, table(rows...))
	for _, note := range r.notes() {
		fmt.Fprintf(w, "- %s\n", note)
	}
	fmt.Fprintln(w)
}

// notes says what is to be known of the numbers, the targets missed included.
func (r handoverResult) notes() []string {
	notes := slices.Clone(r.Notes)
	for _, row := range r.Rows {
		if row.Trouble > 0 {
			notes = append(notes, fmt.Sprintf("N = %d: %d times a session was suspended or lost, or a campaign began anew.", row.N, row.Trouble))
		}
	}
	if r.Strategy != fair.New().Name() || len(r.Rows) == 0 || r.cfg.quick {
		return notes
	}
	worst, least, most := 0.0, math.Inf(1), 0.0
	for _, row := range r.Rows {
		worst, least, most = max(worst, row.Ratio), min(least, row.Packets), max(most, row.Packets)
	}
	return append(notes,
		fmt.Sprintf("Target: p50 within %.1f raw limits at every N. %s: %.2f at most.", target, verdict(worst <= target), worst),
		fmt.Sprintf("Target: packets per handover the same at every N within %.0f %%. %s: %.1f to %.1f.", 100*spread, verdict(0 < least && most <= least*(1+spread)), least, most))
}

func verdict(met bool) string {
	if met {
		return "Met"
	}
	return "MISSED"
}
