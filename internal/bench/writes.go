package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/strategy/fair"
	"github.com/elector-go/elector/strategy/kafka"
	"github.com/elector-go/elector/strategy/unfair"
)

// writeRow is what one operation costs.
type writeRow struct {
	What     string  `json:"what"`
	Strategy string  `json:"strategy"`
	Trips    float64 `json:"round_trips"` // requests until the call has returned
	Packets  float64 `json:"packets"`     // until all is still
	Took     dist    `json:"took"`
	Raw      dist    `json:"raw"`
	Ratio    float64 `json:"ratio_p50"`
}

type writesResult struct {
	Rows []writeRow `json:"rows"`

	cfg config
}

// A bout is one operation to be measured, and the bare client's transaction that is
// its limit.
type bout struct {
	what string
	// before makes the state that do is measured from, and after clears up.
	before, do, after func(ctx context.Context) error
	raw               func() error
}

func writesPart(ctx context.Context, l *lab) (section, error) {
	result := writesResult{cfg: l.cfg}
	for _, s := range []elector.Strategy{fair.New(), unfair.New(), kafka.New()} {
		l.say("writes: %s", s.Name())
		w, err := l.newWriter(ctx, s)
		if err != nil {
			return nil, err
		}
		for _, b := range w.bouts() {
			row, err := w.measure(ctx, b)
			if err != nil {
				return nil, errors.Join(fmt.Errorf("%s, %s: %w", s.Name(), b.what, err), w.close())
			}
			result.Rows = append(result.Rows, row)
		}
		if err := w.close(); err != nil {
			return nil, err
		}
	}
	return result, nil
}

// A writer is one candidate, and the bare client beside it.
type writer struct {
	l        *lab
	strategy elector.Strategy
	elector  elector.Elector
	term     *elector.Term
	raw      *zk.Conn
	version  uint64 // of the key that commits write
}

const (
	writeKey = "/bench-writes/data"
	rawSeat  = "/bench-writes-raw/seat"
	rawEpoch = "/bench-writes-raw/epoch"
)

func (l *lab) newWriter(ctx context.Context, s elector.Strategy) (*writer, error) {
	b, err := l.zkBackend(l.zk.Addr(), l.cfg.ttl)
	if err != nil {
		return nil, err
	}
	e, err := elector.New(elector.Config{Backend: b, Strategy: s, Election: "/bench-writes/" + s.Name(), ID: "1"})
	if err != nil {
		return nil, err
	}
	raw, err := l.rawConn(ctx, l.zk.Addr(), l.cfg.ttl)
	if err != nil {
		return nil, errors.Join(err, e.Close(ctx))
	}
	for _, path := range []string{"/bench-writes-raw", rawEpoch} {
		if _, err := raw.Create(path, nil, 0, zk.WorldACL(zk.PermAll)); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			raw.Close()
			return nil, errors.Join(err, e.Close(ctx))
		}
	}
	return &writer{l: l, strategy: s, elector: e, raw: raw}, nil
}

func (w *writer) close() error {
	w.raw.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return w.elector.Close(ctx)
}

func (w *writer) campaign(ctx context.Context) (err error) {
	w.term, err = w.elector.Campaign(ctx)
	return err
}

func (w *writer) resign(ctx context.Context) error { return w.term.Resign(ctx) }

// lead leads, if it does not yet, and reads the version that is to be compared.
func (w *writer) lead(ctx context.Context) error {
	if w.term == nil || !w.term.Valid() {
		if err := w.campaign(ctx); err != nil {
			return err
		}
	}
	made, err := w.term.Commit(ctx, elector.Put(writeKey, []byte("0")))
	if err == nil {
		w.version = made[0].Version
	}
	return err
}

func nothing(context.Context) error { return nil }

func (w *writer) bouts() []bout {
	commit := func(op func() elector.Op) func(context.Context) error {
		return func(ctx context.Context) error {
			made, err := w.term.Commit(ctx, op())
			if err == nil {
				w.version = made[0].Version
			}
			return err
		}
	}
	value := []byte("value")
	return []bout{
		{"claim of a vacant seat", nothing, w.campaign, w.resign, w.rawClaim},
		{"Commit of a CompareAndSet", w.lead, commit(func() elector.Op { return elector.CompareAndSet(writeKey, value, w.version) }), nothing, w.rawWrite},
		{"Commit of a Put", w.lead, commit(func() elector.Op { return elector.Put(writeKey, value) }), nothing, w.rawWrite},
		{"Proclaim", w.lead, func(ctx context.Context) error { return w.term.Proclaim(ctx, value) }, nothing, w.rawWrite},
		{"Resign", w.lead, w.resign, nothing, w.rawWrite},
	}
}

// rawClaim is Kafka's: raise the epoch and create the seat in one transaction.
func (w *writer) rawClaim() error {
	_, err := w.raw.Multi(
		&zk.SetDataRequest{Path: rawEpoch, Data: []byte("1"), Version: -1},
		&zk.CreateRequest{Path: rawSeat, Data: []byte("raw"), Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagEphemeral})
	return err
}

// rawWrite is a check and a write in one transaction.
func (w *writer) rawWrite() error {
	_, err := w.raw.Multi(
		&zk.CheckVersionRequest{Path: rawEpoch, Version: -1},
		&zk.SetDataRequest{Path: rawEpoch, Data: []byte("2"), Version: -1})
	return err
}

// measure takes the operation and the bare transaction in turn, each after the same
// idle time, and then counts.
func (w *writer) measure(ctx context.Context, b bout) (writeRow, error) {
	row := writeRow{What: b.what, Strategy: w.strategy.Name()}
	var took, raw []time.Duration
	for range w.l.cfg.samples {
		d, err := w.sample(ctx, b)
		if err != nil {
			return row, err
		}
		took = append(took, d)
		if d, err = w.rawSample(ctx, b); err != nil {
			return row, err
		}
		raw = append(raw, d)
	}
	row.Took, row.Raw = summarize(took), summarize(raw)
	row.Ratio = ratio(row.Took.P50, row.Raw.P50)
	return row, w.count(ctx, b, &row)
}

func (w *writer) sample(ctx context.Context, b bout) (time.Duration, error) {
	if err := b.before(ctx); err != nil {
		return 0, err
	}
	if err := pause(ctx, w.l.cfg.idle); err != nil {
		return 0, err
	}
	began := time.Now()
	err := b.do(ctx)
	return time.Since(began), errors.Join(err, b.after(ctx))
}

func (w *writer) rawSample(ctx context.Context, b bout) (time.Duration, error) {
	if err := pause(ctx, w.l.cfg.idle); err != nil {
		return 0, err
	}
	began := time.Now()
	err := b.raw()
	d := time.Since(began)
	if deleted := w.raw.Delete(rawSeat, -1); deleted != nil && !errors.Is(deleted, zk.ErrNoNode) {
		err = errors.Join(err, deleted)
	}
	return d, err
}

// count counts requests and packets of the operation.
func (w *writer) count(ctx context.Context, b bout, row *writeRow) error {
	cycles := min(packetCycles, w.l.cfg.samples)
	m := meter{l: w.l}
	for range cycles {
		if err := b.before(ctx); err != nil {
			return err
		}
		if err := pause(ctx, w.l.cfg.idle); err != nil {
			return err
		}
		if _, err := m.packets(); err != nil {
			return err
		}
		before := w.l.pings.requests.Load()
		if err := b.do(ctx); err != nil {
			return err
		}
		row.Trips += float64(w.l.pings.requests.Load()-before) / float64(cycles)
		if err := pause(ctx, w.l.cfg.idle); err != nil {
			return err
		}
		n, err := m.packets()
		if err != nil {
			return err
		}
		row.Packets += float64(n) / float64(cycles)
		if err := b.after(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r writesResult) markdown(w io.Writer) {
	fmt.Fprintf(w, "## Claims and fenced writes\n\n")
	fmt.Fprintf(w, "One candidate, nobody else. A claim is a Campaign for a vacant seat, in an election that exists and a session that is open. Round trips are requests that were sent until the call had returned; one may have been on its way by then that nobody waits for. Packets are those the server has received and sent until all is still, heartbeats taken off, over %d operations. The raw limit is taken in turn with it: one transaction of the bare client, which for a claim sets one node and creates another, and else checks one and sets it. %v idle before each.\n\n",
		min(packetCycles, r.cfg.samples), r.cfg.idle)
	rows := [][]string{{"", "strategy", "round trips", "packets", "p50", "p90", "raw p50", "p50 / raw p50"}}
	for _, row := range r.Rows {
		rows = append(rows, []string{
			row.What, row.Strategy, fmt.Sprintf("%.1f", row.Trips), fmt.Sprintf("%.1f", row.Packets),
			ms(row.Took.P50), ms(row.Took.P90), ms(row.Raw.P50), fmt.Sprintf("%.2f", row.Ratio),
		})
	}
	fmt.Fprintf(w, "%s\n", table(rows...))
}
