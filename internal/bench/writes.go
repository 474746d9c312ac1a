package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/internal/crowd"
	"github.com/elector-go/elector/strategy/fair"
	"github.com/elector-go/elector/strategy/kafka"
	"github.com/elector-go/elector/strategy/unfair"
)

// A step is what one call costs.
type step struct {
	trips                       int     // requests until the call has returned
	requests, watches, messages float64 // until all is still
}

func writesPart(ctx context.Context, l *lab) (section, error) {
	r, err := l.newRawPair(ctx)
	if err != nil {
		return section{}, err
	}
	defer r.close()
	t := table{
		About: fmt.Sprintf("One candidate and, where the step needs it, a second one. A claim is a Campaign for a vacant seat, in an election that exists and a session that is open; enrolling lasts until the candidate waits; a handover is as above. Round trips are requests that were sent until the call had returned, the fewest seen: others that nobody waits for may be on their way by then. Requests, watch requests and messages are counted until all is still, over %d steps. %s The raw limit is taken in turn with it: for a handover as above, else one transaction of the bare client, which for claims and enrolling writes one key and creates another, and else checks one and writes it. %v idle before each. %s",
			min(countCycles, l.cfg.samples), l.facts.messages, l.cfg.idle, l.facts.sync),
		Head: []string{"", "strategy", "round trips", "requests", "watch requests", "messages", "p50", "p90", "raw p50", "p50 / raw p50"},
	}
	for _, s := range []elector.Strategy{fair.New(), unfair.New(), kafka.New()} { // parentwatch writes as fair does
		l.say("writes: %s", s.Name())
		f, err := newField(ctx, 2, s, "/bench-writes/"+s.Name(), l.opener())
		if err != nil {
			return section{}, err
		}
		r.idle = func() error { return f.idle(l.cfg.idle) }
		w := &writer{l: l, field: f, raw: r}
		for _, b := range w.bouts() {
			took, raw, err := w.sample(b)
			var sent step
			if err == nil {
				sent, err = w.count(b)
			}
			if err != nil {
				return section{}, errors.Join(fmt.Errorf("%s, %s: %w", s.Name(), b.what, err), f.close())
			}
			t.add(b.what, s.Name(), sent.trips, tenth(sent.requests), tenth(sent.watches), tenth(sent.messages), took.P50, took.P90, raw.P50, ratio(took.P50, raw.P50))
			l.steps = append(l.steps, [3]string{b.what, s.Name(), fmt.Sprintf("%d (%.3g)", sent.trips, sent.messages)})
		}
		if err := f.close(); err != nil {
			return section{}, err
		}
	}
	return section{l.facts.title + ": claims and fenced writes", []table{t}}, nil
}

// A bout is one step to be measured, and what the bare client does instead, which is
// its limit.
type bout struct {
	what string
	// before makes the state that do is measured from, and after clears up.
	before, after func() error
	// do and raw return how long it took.
	do, raw func() (time.Duration, error)
}

const writeKey = "/bench-writes/data"

// A writer is two candidates, of whom the second stands by, and the bare clients
// beside them.
type writer struct {
	l       *lab
	field   *field
	raw     *rawPair
	version uint64 // of the key that commits write
}

func (w *writer) bouts() []bout {
	commit := func(op func() elector.Op) func() (time.Duration, error) {
		return timed(func() error {
			made, err := w.field.leader.Term.Commit(w.field.Context(), op())
			if err == nil {
				w.version = made[0].Version
			}
			return err
		})
	}
	value := []byte("value")
	put := func() elector.Op { return elector.Put(writeKey, value) }
	compareAndSet := func() elector.Op { return elector.CompareAndSet(writeKey, value, w.version) }
	proclaim := timed(func() error { return w.field.leader.Term.Proclaim(w.field.Context(), value) })
	return []bout{
		{"claim of a vacant seat", nothing, w.resign, timed(w.claim), w.rawClaim},
		{"enrolling behind a leader", w.lead, w.clear, timed(w.enrol), w.rawClaim},
		{"handover", w.leadFollowed, w.clear, w.handover, w.raw.sample},
		{"Commit of a CompareAndSet", w.lead, nothing, commit(compareAndSet), w.rawWrite},
		{"Commit of a Put", w.lead, nothing, commit(put), w.rawWrite},
		{"Proclaim", w.lead, nothing, proclaim, w.rawWrite},
		{"Resign", w.lead, nothing, timed(w.resign), w.rawWrite},
	}
}

func nothing() error { return nil }

func timed(do func() error) func() (time.Duration, error) {
	return func() (time.Duration, error) {
		began := time.Now()
		err := do()
		return time.Since(began), err
	}
}

// claim campaigns on this goroutine, with nobody else there.
func (w *writer) claim() error {
	f := w.field
	term, err := f.Candidates[0].Campaign(f.Context())
	if err == nil {
		f.leader = crowd.Win{Candidate: f.Candidates[0], Term: term}
		f.present++
	}
	return err
}

// resign leaves the seat, with nobody else there.
func (w *writer) resign() error {
	w.field.present--
	return w.field.leader.Term.Resign(w.field.Context())
}

// lead leads, if nobody does yet, and reads the version that is to be compared.
func (w *writer) lead() error {
	f := w.field
	if f.present == 0 {
		if err := w.claim(); err != nil {
			return err
		}
	}
	made, err := f.leader.Term.Commit(f.Context(), elector.Put(writeKey, []byte("0")))
	if err == nil {
		w.version = made[0].Version
	}
	return err
}

// enrol has the other one enter, and returns when it waits.
func (w *writer) enrol() error {
	f := w.field
	for _, e := range f.Candidates {
		if e != f.leader.Candidate {
			f.enter(e)
		}
	}
	return f.Await(1)
}

// leadFollowed leads with the other one waiting.
func (w *writer) leadFollowed() error {
	if err := w.lead(); err != nil {
		return err
	}
	return w.enrol()
}

func (w *writer) handover() (time.Duration, error) {
	d, _, err := w.field.handover()
	return d, err
}

// clear has all leave.
func (w *writer) clear() error {
	for w.field.present > 1 {
		if _, err := w.handover(); err != nil {
			return err
		}
	}
	return w.resign()
}

// sample takes the step and the bare client's in turn, each after the same idle time.
func (w *writer) sample(b bout) (took, raw dist, err error) {
	all, err := inTurn(w.l.cfg.samples, func() (time.Duration, error) {
		if err := errors.Join(b.before(), w.raw.idle()); err != nil {
			return 0, err
		}
		d, err := b.do()
		return d, errors.Join(err, b.after())
	}, func() (time.Duration, error) {
		d, err := b.raw()
		if err != nil {
			err = fmt.Errorf("the bare client's: %w", err)
		}
		return d, err
	})
	if err != nil {
		return took, raw, err
	}
	return all[0], all[1], nil
}

func (w *writer) rawClaim() (time.Duration, error) {
	if err := w.raw.idle(); err != nil {
		return 0, err
	}
	return w.raw.claim(w.raw.owner)
}

func (w *writer) rawWrite() (time.Duration, error) {
	if err := w.raw.idle(); err != nil {
		return 0, err
	}
	return timed(func() error { return w.raw.owner.write(w.field.Context()) })()
}

// count counts what the step sends.
func (w *writer) count(b bout) (s step, err error) {
	cycles := min(countCycles, w.l.cfg.samples)
	for i := range cycles {
		if err := errors.Join(b.before(), w.raw.idle()); err != nil {
			return s, err
		}
		if _, err := w.l.service.messages(); err != nil {
			return s, err
		}
		before := w.l.service.sent()
		if _, err := b.do(); err != nil {
			return s, err
		}
		done := w.l.service.sent()
		if err := w.raw.idle(); err != nil {
			return s, err
		}
		still := w.l.service.sent()
		n, err := w.l.service.messages()
		if err != nil {
			return s, err
		}
		// The fewest: others are on their way by then that nobody waits for.
		if trips := done.requests - before.requests; i == 0 || trips < s.trips {
			s.trips = trips
		}
		mean := func(n int) float64 { return float64(n) / float64(cycles) }
		s.requests += mean(still.requests - before.requests)
		s.watches += mean(still.watches - before.watches)
		s.messages += mean(n)
		if err := b.after(); err != nil {
			return s, err
		}
	}
	return s, nil
}

// stepsOf are the steps of all services, to be seen side by side.
func stepsOf(labs []*lab) section {
	t := table{
		About: "Until the call returns; in brackets the messages of all candidates concerned until all is still. See above for what is counted.",
		Head:  []string{"step", "strategy"},
	}
	for i, s := range labs[0].steps {
		t.add(s[0], s[1])
		for _, l := range labs {
			t.Rows[i] = append(t.Rows[i], l.steps[i][2])
		}
	}
	for _, l := range labs {
		t.Head = append(t.Head, l.facts.title)
	}
	return section{"Round trips per step", []table{t}}
}
