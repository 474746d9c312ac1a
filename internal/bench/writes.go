package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/internal/crowd"
	"github.com/elector-go/elector/strategy"
	"github.com/elector-go/elector/strategy/fair"
	"github.com/elector-go/elector/strategy/kafka"
	"github.com/elector-go/elector/strategy/unfair"
)

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
	for _, s := range []strategy.Strategy{fair.Strategy{}, unfair.Strategy{}, kafka.Strategy{}} { // parentwatch writes like fair
		l.say("writes: %s", s.Name())
		m, err := l.newMatch(ctx, r, 2, s, "/bench-writes/"+s.Name())
		if err != nil {
			return section{}, err
		}
		w := &writer{match: m}
		for _, b := range w.bouts() {
			all, err := w.sample(b, b.raw)
			var sent step
			if err == nil {
				sent, err = w.count(b)
			}
			if err != nil {
				return section{}, errors.Join(fmt.Errorf("%s, %s: %w", s.Name(), b.what, err), w.close())
			}
			took, raw := all[0], all[1]
			t.add(b.what, s.Name(), sent.trips, tenth(sent.requests), tenth(sent.watches), tenth(sent.messages), took.P50, took.P90, raw.P50, ratio(took.P50, raw.P50))
			l.steps = append(l.steps, line{b.what, s.Name(), fmt.Sprintf("%d (%.3g)", sent.trips, sent.messages)})
		}
		if err := w.close(); err != nil {
			return section{}, err
		}
	}
	return section{l.facts.title + ": claims and fenced writes", []table{t}}, nil
}

const writeKey = "/bench-writes/data"

// A writer is two candidates; the second one stands by.
type writer struct {
	*match
	version uint64 // of the key that commits write
}

func (w *writer) bouts() []bout {
	value := []byte("value")
	put := func() elector.Write { return elector.Put(writeKey, value) }
	compareAndSet := func() elector.Write { return elector.CompareAndSet(writeKey, value, w.version) }
	commit := func(op func() elector.Write) sampler { return timed(func() error { return w.commit(op()) }) }
	proclaim := timed(func() error { return w.Leader.Term.Proclaim(w.Context(), value) })
	return []bout{
		{"claim of a vacant seat", nothing, w.resign, timed(w.claim), w.rawClaim},
		{"enrolling behind a leader", w.lead, w.clear, timed(w.follow), w.rawClaim},
		{"handover", w.leadFollowed, w.clear, w.handover, w.raw.sample},
		{"Commit of a CompareAndSet", w.lead, nothing, commit(compareAndSet), w.rawWrite},
		{"Commit of a Put", w.lead, nothing, commit(put), w.rawWrite},
		{"Proclaim", w.lead, nothing, proclaim, w.rawWrite},
		{"Resign", w.lead, nothing, timed(w.resign), w.rawWrite},
	}
}

func (w *writer) commit(op elector.Write) error {
	made, err := w.Leader.Term.Commit(w.Context(), op)
	if err == nil {
		w.version = made[0].Version
	}
	return err
}

// claim campaigns on this goroutine, without other candidates.
func (w *writer) claim() error {
	first := w.Candidates[0]
	term, err := first.Campaign(w.Context())
	if err == nil {
		w.Leader = crowd.Win{Candidate: first, Term: term}
		w.present++
	}
	return err
}

// lead leads, if nobody does yet, and reads the version to compare.
func (w *writer) lead() error {
	if w.present == 0 {
		if err := w.claim(); err != nil {
			return err
		}
	}
	return w.commit(elector.Put(writeKey, []byte("0")))
}

// follow makes the other candidate enter, and returns when it waits.
func (w *writer) follow() error {
	for _, c := range w.Candidates {
		if c != w.Leader.Candidate {
			w.enter(c)
		}
	}
	return w.Await(1)
}

// leadFollowed leads while the other candidate waits.
func (w *writer) leadFollowed() error {
	if err := w.lead(); err != nil {
		return err
	}
	return w.follow()
}

// clear makes all candidates leave.
func (w *writer) clear() error {
	for w.present > 1 {
		if _, err := w.handover(); err != nil {
			return err
		}
	}
	return w.resign()
}

func (w *writer) rawClaim() (time.Duration, error) {
	if err := w.still(); err != nil {
		return 0, err
	}
	return w.raw.claim(w.raw.owner)
}

func (w *writer) rawWrite() (time.Duration, error) {
	if err := w.still(); err != nil {
		return 0, err
	}
	return timed(func() error { return w.raw.owner.write(w.Context()) })()
}

// stepsOf returns the steps of all services side by side.
func stepsOf(labs []*lab) section {
	t := table{
		About: "Until the call returns; in brackets the messages of all candidates concerned until all is still. See above for what is counted.",
		Head:  []string{"step", "strategy"},
	}
	t.sideBySide(labs, func(l *lab) []line { return l.steps })
	return section{"Round trips per step", []table{t}}
}
