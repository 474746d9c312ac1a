package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/strategy/fair"
	"github.com/elector-go/elector/strategy/kafka"
	"github.com/elector-go/elector/strategy/unfair"
)

// writeRow is what one step costs.
type writeRow struct {
	What     string  `json:"what"`
	Strategy string  `json:"strategy"`
	Trips    int     `json:"round_trips"` // requests until the call has returned
	Requests float64 `json:"requests"`    // until all is still, as the next two
	Watches  float64 `json:"watch_requests"`
	Messages float64 `json:"messages"`
	Took     dist    `json:"took"`
	Raw      dist    `json:"raw"`
	Ratio    float64 `json:"ratio_p50"`
}

type writesResult struct {
	Rows []writeRow `json:"rows"`

	lab *lab
}

func writesPart(ctx context.Context, l *lab) (section, error) {
	result := writesResult{lab: l}
	r, err := l.newRawPair(ctx)
	if err != nil {
		return nil, err
	}
	defer r.close()
	for _, s := range []elector.Strategy{fair.New(), unfair.New(), kafka.New()} { // parentwatch writes as fair does
		l.say("writes: %s", s.Name())
		f, err := newField(ctx, 2, s, "/bench-writes/"+s.Name(), l.opener())
		if err != nil {
			return nil, err
		}
		w := &writer{l: l, field: f, raw: r}
		for _, b := range w.bouts() {
			row, err := w.measure(b)
			if err != nil {
				return nil, errors.Join(fmt.Errorf("%s, %s: %w", s.Name(), b.what, err), f.close())
			}
			row.Strategy = s.Name()
			result.Rows = append(result.Rows, row)
		}
		if err := f.close(); err != nil {
			return nil, err
		}
	}
	return result, nil
}

// measure takes the step and the bare client's in turn, each after the same idle
// time, and then counts.
func (w *writer) measure(b bout) (writeRow, error) {
	row := writeRow{What: b.what}
	var took, raw []time.Duration
	for range w.l.cfg.samples {
		d, err := w.sample(b)
		if err != nil {
			return row, err
		}
		took = append(took, d)
		if d, err = b.raw(); err != nil {
			return row, fmt.Errorf("the bare client's: %w", err)
		}
		raw = append(raw, d)
	}
	row.Took, row.Raw = summarize(took), summarize(raw)
	row.Ratio = ratio(row.Took.P50, row.Raw.P50)
	return row, w.count(b, &row)
}

func (w *writer) sample(b bout) (time.Duration, error) {
	if err := b.before(); err != nil {
		return 0, err
	}
	if err := w.idle(); err != nil {
		return 0, err
	}
	d, err := b.do()
	return d, errors.Join(err, b.after())
}

func (w *writer) idle() error { return w.field.idle(w.l.cfg.idle) }

// count counts what the step sends.
func (w *writer) count(b bout, row *writeRow) error {
	cycles := min(countCycles, w.l.cfg.samples)
	for i := range cycles {
		if err := errors.Join(b.before(), w.idle()); err != nil {
			return err
		}
		if _, err := w.l.service.messages(); err != nil {
			return err
		}
		before := w.l.service.sent()
		if _, err := b.do(); err != nil {
			return err
		}
		done := w.l.service.sent()
		if err := w.idle(); err != nil {
			return err
		}
		still := w.l.service.sent()
		n, err := w.l.service.messages()
		if err != nil {
			return err
		}
		add := func(to *float64, n int) { *to += float64(n) / float64(cycles) }
		// The fewest: others are on their way by then that nobody waits for.
		if trips := done.requests - before.requests; i == 0 || trips < row.Trips {
			row.Trips = trips
		}
		add(&row.Requests, still.requests-before.requests)
		add(&row.Watches, still.watches-before.watches)
		add(&row.Messages, n)
		if err := b.after(); err != nil {
			return err
		}
	}
	return nil
}

func (r writesResult) markdown(w io.Writer) {
	cfg, facts := r.lab.cfg, r.lab.facts
	fmt.Fprintf(w, "## %s: claims and fenced writes\n\n", facts.title)
	fmt.Fprintf(w, "One candidate and, where the step needs it, a second one. A claim is a Campaign for a vacant seat, in an election that exists and a session that is open; enrolling lasts until the candidate waits; a handover is as above. Round trips are requests that were sent until the call had returned, the fewest seen: others that nobody waits for may be on their way by then. Requests, watch requests and messages are counted until all is still, over %d steps. %s The raw limit is taken in turn with it: for a handover as above, else one transaction of the bare client, which for claims and enrolling writes one key and creates another, and else checks one and writes it. %v idle before each. %s\n\n",
		min(countCycles, cfg.samples), facts.messages, cfg.idle, facts.sync)
	rows := [][]string{{"", "strategy", "round trips", "requests", "watch requests", "messages", "p50", "p90", "raw p50", "p50 / raw p50"}}
	for _, row := range r.Rows {
		rows = append(rows, []string{
			row.What, row.Strategy, fmt.Sprint(row.Trips), tenth(row.Requests), tenth(row.Watches), tenth(row.Messages),
			ms(row.Took.P50), ms(row.Took.P90), ms(row.Raw.P50), fmt.Sprintf("%.2f", row.Ratio),
		})
	}
	fmt.Fprintf(w, "%s\n", table(rows...))
}

func tenth(f float64) string { return fmt.Sprintf("%.1f", f) }

// steps are the writes parts of all services, to be seen side by side.
type steps []writesResult

func (s steps) markdown(w io.Writer) {
	fmt.Fprintf(w, "## Round trips per step\n\n")
	fmt.Fprintf(w, "Until the call returns; in brackets the messages of all candidates concerned until all is still. See above for what is counted.\n\n")
	head := []string{"step", "strategy"}
	for _, of := range s {
		head = append(head, of.lab.facts.title)
	}
	rows := [][]string{head}
	for i, row := range s[0].Rows {
		cells := []string{row.What, row.Strategy}
		for _, of := range s {
			cells = append(cells, fmt.Sprintf("%d (%.3g)", of.Rows[i].Trips, of.Rows[i].Messages))
		}
		rows = append(rows, cells)
	}
	fmt.Fprintf(w, "%s\n", table(rows...))
}
