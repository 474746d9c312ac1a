package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/internal/crowd"
	"github.com/elector-go/elector/strategy/fair"
)

const theElection = "/load/one"

// A queue is a crowd in one election, of whom each has a session of its own.
type queue struct {
	*guarded
	w      world
	r      *report
	line   *line
	at     map[string]process // by the candidate's ID
	leader crowd.Win
	viewer *crowd.Candidate // who does not campaign
}

// crowded tries one election with many candidates.
func crowded(ctx context.Context, cfg config, w world, r *report) error {
	if err := found(ctx, w, theElection); err != nil {
		return err
	}
	before, err := start(ctx, w)
	if err != nil {
		return err
	}
	q, err := newQueue(ctx, cfg.candidates, w, r)
	if err == nil {
		err = q.try(cfg)
	}
	began := time.Now()
	if err := errors.Join(err, q.leaveAll()); err != nil {
		return err
	}
	r.took("all leave", cfg.candidates, began, "each confirmed")
	if err := settled(ctx, w, before, grace); err != nil {
		return err
	}
	r.clean("what is left", before)
	return nil
}

func newQueue(ctx context.Context, n int, w world, r *report) (*queue, error) {
	q := &queue{guarded: newGuarded(ctx, 2*n), w: w, r: r, line: newLine(), at: make(map[string]process)}
	for i := range n + 1 {
		id := strconv.Itoa(i)
		p, err := q.open(w)
		if err != nil {
			return q, err
		}
		if _, err := q.stand(p, q.line.tap(p.Backend, id), id, theElection, fair.New()); err != nil {
			return q, err
		}
		q.at[id] = p
	}
	q.viewer = q.Candidates[n]
	return q, nil
}

func (q *queue) try(cfg config) error {
	all := q.Candidates[:cfg.candidates]
	began := time.Now()
	if err := q.join(all, cfg.join); err != nil {
		return fmt.Errorf("join: %w", err)
	}
	q.r.took("join", len(all), began, "each waits, the first leads")
	if err := q.listed(); err != nil {
		return fmt.Errorf("after the joining: %w", err)
	}
	began = time.Now()
	if err := q.handovers(cfg.handovers); err != nil {
		return err
	}
	q.r.took("handovers, and the old leader enters again", cfg.handovers, began, "each to who came next; never two")
	if err := q.expiry(cfg.ttl, max(cfg.handovers/10, 1)); err != nil {
		return fmt.Errorf("expiry of half: %w", err)
	}
	return nil
}

// join has the first lead, and then all others enter.
func (q *queue) join(all []*crowd.Candidate, most int) (err error) {
	q.Enter(all[0])
	if q.leader, err = q.Next(); err != nil {
		return err
	}
	if err := q.EnterAll(all[1:], most); err != nil {
		return err
	}
	return errors.Join(q.line.elected(q.leader.ID, q.leader.Term.Token()), q.NobodyElse())
}

// listed holds that the service has each candidate once, in the order of arrival.
func (q *queue) listed() error {
	ctx, cancel := context.WithTimeout(q.Context(), patienceFor(q.line.len()))
	defer cancel()
	all, err := q.viewer.Elector.Candidates(ctx)
	if err != nil {
		return err
	}
	ids := make([]string, len(all))
	for i, c := range all {
		ids[i] = c.ID
	}
	return sameOrder(ids, q.line.order())
}

func sameOrder(got, want []string) error {
	if slices.Equal(got, want) {
		return nil
	}
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	return fmt.Errorf("the service lists %d candidates, and %d are in line; from place %d on it has %q, and not %q",
		len(got), len(want), i+1, got[i:min(len(got), i+3)], want[i:min(len(want), i+3)])
}

// handovers has the leader resign and enter again, n times.
func (q *queue) handovers(n int) error {
	present := q.line.len()
	for i := range n {
		old := q.leader
		q.line.leave(old.ID)
		if err := old.Term.Resign(q.Context()); err != nil {
			return fmt.Errorf("handover %d: %w", i+1, err)
		}
		if err := q.succeeded(old.Term); err != nil {
			return fmt.Errorf("handover %d: %w", i+1, err)
		}
		q.Enter(old.Candidate)
	}
	return errors.Join(q.Await(present-1), q.NobodyElse())
}

// succeeded waits for the next leader, and holds that it is the one whose turn it is, and
// the only one.
func (q *queue) succeeded(old *elector.Term) (err error) {
	if q.leader, err = q.Next(); err != nil {
		return err
	}
	if err := q.line.elected(q.leader.ID, q.leader.Term.Token()); err != nil {
		return err
	}
	if old.Valid() || q.leader.Term.Token() <= old.Token() {
		return fmt.Errorf("term %d follows term %d, which is valid: %t", q.leader.Term.Token(), old.Token(), old.Valid())
	}
	return nil
}

// expiry has the sessions of every second candidate in line end, beginning with the
// leader's. The others go on, and those whose sessions were lost come back.
func (q *queue) expiry(ttl time.Duration, handovers int) error {
	n := q.line.len()
	var lost []process
	for i, id := range q.line.order() {
		if i%2 == 0 {
			lost = append(lost, q.at[id])
			q.line.leave(id)
		}
	}
	old, began := q.leader, time.Now()
	if err := lose(q.Context(), q.w, ttl, lost...); err != nil {
		return err
	}
	if err := q.succeeded(old.Term); err != nil {
		return err
	}
	q.r.waited("half of the sessions end, the leader's too", len(lost), began, "the oldest of the other half leads")
	if err := q.listed(); err != nil {
		return fmt.Errorf("of the other half: %w", err)
	}
	began = time.Now()
	if err := q.handovers(handovers); err != nil {
		return err
	}
	q.r.took("handovers among the other half", handovers, began, "each to who came next; never two")

	began = time.Now()
	for _, p := range lost {
		p.Mend()
	}
	q.Enter(old.Candidate) // the others' campaigns go on by themselves
	if err := q.Await(n - 1); err != nil {
		return fmt.Errorf("coming back: %w", err)
	}
	for _, p := range lost {
		p.doomed.Store(false)
	}
	q.r.took("they come back", len(lost), began, "each once, at the end of the line")
	if err := errors.Join(q.listed(), q.NobodyElse()); err != nil {
		return fmt.Errorf("after they came back: %w", err)
	}
	return nil
}
