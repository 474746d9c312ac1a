package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/crowd"
	"github.com/elector-go/elector/internal/services"
	"github.com/elector-go/elector/strategy/fair"
)

// An election is one of the elections in a trial.
type election struct {
	path   string
	line   *line
	leader crowd.Win
}

// A member is a process with a candidate in each election, all on its single session.
type member struct {
	services.Client
	id     string
	doomed atomic.Bool // its connection is cut, so its session ends
}

// A trial makes members contend for elections. It fails when a session is lost that was not cut off.
type trial struct {
	*crowd.Crowd
	w         world
	r         *report
	members   []*member
	elections []*election
	of        map[*crowd.Candidate]*election
	leaving   atomic.Bool // sessions end because electors are closed
}

// try makes members contend for elections, and checks that they leave nothing behind.
func try(ctx context.Context, cfg config, members, elections int, w world, r *report) error {
	t := newTrial(ctx, members, elections, w, r)
	if err := t.found(); err != nil {
		return err
	}
	before, err := start(ctx, w)
	if err != nil {
		return err
	}
	if err = t.gather(cfg, members); err == nil {
		err = t.run(cfg)
	}
	began := time.Now()
	if err := errors.Join(err, t.leaveAll()); err != nil {
		return err
	}
	r.took("all leave", len(t.Candidates), began, "each confirmed")
	if err := settled(ctx, w, before, grace); err != nil {
		return err
	}
	r.clean("what is left", before)
	return nil
}

func newTrial(ctx context.Context, members, elections int, w world, r *report) *trial {
	t := &trial{Crowd: crowd.New(ctx, 2*members*elections, patience), w: w, r: r, of: make(map[*crowd.Candidate]*election)}
	for i := range elections {
		t.elections = append(t.elections, &election{path: fmt.Sprintf("/load/%d/%d", elections, i), line: newLine()})
	}
	return t
}

// found creates the elections' places, which remain, so that the census afterwards can be compared with the
// one before.
func (t *trial) found() error {
	p, err := t.w.open()
	if err != nil {
		return err
	}
	shared := backend.Share(p.Backend, 0)
	founders := crowd.New(t.Context(), 1, patience)
	for _, e := range t.elections {
		one, err := founders.Add(elector.Config{Backend: shared, Strategy: fair.Strategy{}, Election: e.path, ID: "founder"})
		if err == nil {
			founders.Enter(one)
			_, err = founders.Next()
		}
		if err != nil {
			return errors.Join(err, founders.LeaveAll(patience))
		}
	}
	return errors.Join(founders.LeaveAll(patienceFor(len(t.elections))), p.Close())
}

// gather makes n members, whose candidates do not campaign yet: those of the first, then of the next.
func (t *trial) gather(cfg config, n int) error {
	for i := range n {
		p, err := t.w.open()
		if err != nil {
			return err
		}
		m := &member{Client: p, id: strconv.Itoa(i)}
		t.members = append(t.members, m)
		b := p.Backend
		if len(t.elections) > 1 {
			b = backend.Share(b, cfg.ttl)
		}
		for _, e := range t.elections {
			hooks := elector.Hooks{Session: func(_ string, state backend.State) {
				if state == backend.Lost && !m.doomed.Load() && !t.leaving.Load() {
					t.Fail(fmt.Errorf("candidate %s of %s has lost its session: the machine is too slow for so many with this -ttl", m.id, e.path))
				}
			}}
			c, err := t.Add(elector.Config{Backend: e.line.tap(b, m.id), Strategy: fair.Strategy{}, Election: e.path, ID: m.id, Hooks: hooks})
			if err != nil {
				return err
			}
			t.of[c] = e
		}
	}
	return nil
}

func (t *trial) leaveAll() error {
	t.leaving.Store(true)
	err := t.LeaveAll(patienceFor(len(t.Candidates)))
	for _, m := range t.members {
		err = errors.Join(err, m.Close())
	}
	return err
}

func (t *trial) run(cfg config) error {
	began := time.Now()
	if err := t.join(cfg.join); err != nil {
		return fmt.Errorf("join: %w", err)
	}
	t.r.took("join", len(t.Candidates), began, "each waits, the first one leads")
	if err := t.listed(); err != nil {
		return fmt.Errorf("after the joining: %w", err)
	}
	began = time.Now()
	if err := t.handovers(cfg.handovers); err != nil {
		return err
	}
	t.r.took("handovers, and the old leader enters again", cfg.handovers, began, "each to who came next; never two")
	if err := t.expiry(cfg.ttl, max(cfg.handovers/10, 1)); err != nil {
		return fmt.Errorf("expiry of half: %w", err)
	}
	return nil
}

// join makes the first member lead in each election, and then all others enter.
func (t *trial) join(most int) error {
	for i, c := range t.Candidates[:len(t.elections)] {
		if i >= most {
			if err := t.succession(1); err != nil {
				return err
			}
		}
		t.Enter(c)
	}
	if err := t.succession(min(most, len(t.elections))); err != nil {
		return err
	}
	return errors.Join(t.EnterAll(t.Candidates[len(t.elections):], most), t.NobodyElse())
}

// succession waits for the next n leaders, and checks that each is the next and only one in its election.
func (t *trial) succession(n int) error {
	for range n {
		w, err := t.Next()
		if err != nil {
			return err
		}
		e := t.of[w.Candidate]
		if err := e.line.elected(w.ID, w.Term.Token()); err != nil {
			return fmt.Errorf("%s: %w", e.path, err)
		}
		if old := e.leader.Term; old != nil && (old.Valid() || w.Term.Token() <= old.Token()) {
			return fmt.Errorf("%s: term %d follows term %d, which is valid: %t", e.path, w.Term.Token(), old.Token(), old.Valid())
		}
		e.leader = w
	}
	return nil
}

// listed checks that the service lists each candidate once, in the order of arrival.
func (t *trial) listed() error {
	for _, e := range t.elections {
		ctx, cancel := context.WithTimeout(t.Context(), patienceFor(e.line.len()))
		all, err := e.leader.Candidates(ctx)
		cancel()
		if err != nil {
			return err
		}
		ids := make([]string, len(all))
		for i, c := range all {
			ids[i] = c.ID
		}
		if err := e.line.listed(ids); err != nil {
			return fmt.Errorf("%s: %w", e.path, err)
		}
	}
	return nil
}

// handovers makes leaders resign and enter again, n times, one election after the other.
func (t *trial) handovers(n int) error {
	waiting := t.waiting()
	for i := range n {
		e := t.elections[i%len(t.elections)]
		old := e.leader
		e.line.leave(old.ID)
		err := old.Term.Resign(t.Context())
		if err == nil {
			err = t.succession(1)
		}
		if err == nil && e.leader == old {
			err = errors.New("somebody was elected in another election")
		}
		if err != nil {
			return fmt.Errorf("handover %d: %w", i+1, err)
		}
		t.Enter(old.Candidate)
	}
	return errors.Join(t.Await(waiting), t.NobodyElse())
}

// waiting returns how many candidates wait behind a leader.
func (t *trial) waiting() (n int) {
	for _, e := range t.elections {
		n += e.line.len() - 1
	}
	return n
}

// expiry makes the sessions of every second member in line end, starting with the one that leads most. The
// others continue, and those whose sessions were lost come back.
func (t *trial) expiry(ttl time.Duration, handovers int) error {
	all := t.waiting()
	lost, led := t.doom()
	began := time.Now()
	if err := lose(t.Context(), t.w, ttl, lost); err != nil {
		return err
	}
	if err := t.succession(len(led)); err != nil {
		return err
	}
	t.r.waited("half of the sessions end, the leader's too", len(lost), began, "the oldest of the other half leads")
	if err := t.listed(); err != nil {
		return fmt.Errorf("of the other half: %w", err)
	}
	if len(t.members)-len(lost) > 1 {
		began = time.Now()
		if err := t.handovers(handovers); err != nil {
			return err
		}
		t.r.took("handovers among the other half", handovers, began, "each to who came next; never two")
	}
	began = time.Now()
	for _, m := range lost {
		m.Mend()
	}
	for _, c := range led {
		t.Enter(c) // the campaigns of the others continue by themselves
	}
	if err := t.Await(all); err != nil {
		return fmt.Errorf("coming back: %w", err)
	}
	for _, m := range lost {
		m.doomed.Store(false)
	}
	t.r.took("they come back", len(lost)*len(t.elections), began, "each once, at the end of the line")
	if err := errors.Join(t.listed(), t.NobodyElse()); err != nil {
		return fmt.Errorf("after they came back: %w", err)
	}
	return nil
}

// doom picks the members whose sessions end, and takes their candidates out of the lines. It also returns
// those candidates that lead.
func (t *trial) doom() (lost []*member, led []*crowd.Candidate) {
	leads := make(map[string]int)
	for _, e := range t.elections {
		leads[e.leader.ID]++
	}
	most := slices.MaxFunc(t.elections, func(a, b *election) int { return cmp.Compare(leads[a.leader.ID], leads[b.leader.ID]) })
	doomed := make(map[string]bool)
	for i, id := range most.line.order() {
		doomed[id] = i%2 == 0
	}
	for _, m := range t.members {
		if doomed[m.id] {
			lost = append(lost, m)
		}
	}
	for _, e := range t.elections {
		if doomed[e.leader.ID] {
			led = append(led, e.leader.Candidate)
		}
		for _, m := range lost {
			e.line.leave(m.id)
		}
	}
	return lost, led
}
