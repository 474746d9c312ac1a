package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/crowd"
	"github.com/elector-go/elector/strategy/fair"
)

// A side is a process that is a candidate in all elections, on one session.
type side struct {
	process    process
	candidates []*crowd.Candidate // by election
}

// A field is two sides in many elections.
type field struct {
	*guarded
	w       world
	r       *report
	sides   [2]*side
	leaders []crowd.Win // by election
	at      map[*crowd.Candidate]int
}

// manifold tries many elections on one session.
func manifold(ctx context.Context, cfg config, w world, r *report) error {
	var paths []string
	for i := range cfg.elections {
		paths = append(paths, fmt.Sprintf("/load/many/%d", i))
	}
	if err := found(ctx, w, paths...); err != nil {
		return err
	}
	before, err := start(ctx, w)
	if err != nil {
		return err
	}
	f, err := newField(ctx, cfg, paths, w, r)
	if err == nil {
		err = f.try(cfg)
	}
	began := time.Now()
	if err := errors.Join(err, f.leaveAll()); err != nil {
		return err
	}
	r.took("all elections are left", 2*len(paths), began, "each confirmed")
	if err := settled(ctx, w, before, grace); err != nil {
		return err
	}
	r.clean("what is left", before)
	return nil
}

func newField(ctx context.Context, cfg config, paths []string, w world, r *report) (*field, error) {
	f := &field{guarded: newGuarded(ctx, 2*len(paths)), w: w, r: r, leaders: make([]crowd.Win, len(paths)), at: make(map[*crowd.Candidate]int)}
	for i := range f.sides {
		p, err := f.open(w)
		if err != nil {
			return f, err
		}
		s := &side{process: p}
		f.sides[i] = s
		shared := backend.Share(p.Backend, cfg.ttl)
		for j, path := range paths {
			c, err := f.stand(p, shared, fmt.Sprintf("side-%d", i+1), path, fair.New())
			if err != nil {
				return f, err
			}
			s.candidates = append(s.candidates, c)
			f.at[c] = j
		}
	}
	return f, nil
}

func (f *field) try(cfg config) error {
	n := len(f.leaders)
	began := time.Now()
	for i, c := range f.sides[0].candidates {
		f.Enter(c)
		if i >= cfg.join {
			if err := f.won(1); err != nil {
				return fmt.Errorf("one session leads: %w", err)
			}
		}
	}
	if err := f.won(min(n, cfg.join)); err != nil {
		return fmt.Errorf("one session leads: %w", err)
	}
	f.r.took("elections that one session leads", n, began, "each once")
	began = time.Now()
	if err := f.EnterAll(f.sides[1].candidates, cfg.join); err != nil {
		return fmt.Errorf("another waits: %w", err)
	}
	f.r.took("elections in which another session waits", n, began, "each waits")
	began = time.Now()
	if err := f.handovers(cfg.handovers); err != nil {
		return err
	}
	f.r.took("handovers, one election after the other", cfg.handovers, began, "each to the other; never two")
	if err := f.expiry(cfg.ttl); err != nil {
		return fmt.Errorf("expiry of a session: %w", err)
	}
	return nil
}

// won takes the next n wins, and holds that each is of an election that had no leader.
func (f *field) won(n int) error {
	for range n {
		w, err := f.Next()
		if err != nil {
			return err
		}
		i := f.at[w.Candidate]
		if old := f.leaders[i]; old.Term != nil && (old.Term.Valid() || old.Term.Token() >= w.Term.Token() || old.Candidate == w.Candidate) {
			return fmt.Errorf("election %d: %s has term %d after term %d of %s, which is valid: %t",
				i, w.ID, w.Term.Token(), old.Term.Token(), old.ID, old.Term.Valid())
		}
		f.leaders[i] = w
	}
	return nil
}

// handovers has the leaders resign and enter again, one election after the other.
func (f *field) handovers(n int) error {
	for k := range n {
		i := k % len(f.leaders)
		old := f.leaders[i]
		if err := old.Term.Resign(f.Context()); err != nil {
			return fmt.Errorf("handover %d: %w", k+1, err)
		}
		if err := f.won(1); err != nil {
			return fmt.Errorf("handover %d: %w", k+1, err)
		}
		if f.leaders[i].Candidate == old.Candidate {
			return fmt.Errorf("handover %d: somebody was elected in another election", k+1)
		}
		f.Enter(old.Candidate)
	}
	return errors.Join(f.Await(len(f.leaders)), f.NobodyElse())
}

// expiry ends the session of the side that leads more: the other leads all that it led, and it comes back.
func (f *field) expiry(ttl time.Duration) error {
	lost, led := f.sides[0], f.ledBy(f.sides[0])
	if others := f.ledBy(f.sides[1]); len(others) > len(led) {
		lost, led = f.sides[1], others
	}
	began := time.Now()
	if err := lose(f.Context(), f.w, ttl, lost.process); err != nil {
		return err
	}
	if err := f.won(len(led)); err != nil {
		return err
	}
	f.r.waited("elections whose leader's session ends", len(led), began, "the other leads each")
	began = time.Now()
	lost.process.Mend()
	for _, w := range led {
		f.Enter(w.Candidate) // the others' campaigns go on by themselves
	}
	if err := f.Await(len(f.leaders)); err != nil {
		return fmt.Errorf("coming back: %w", err)
	}
	lost.process.doomed.Store(false)
	f.r.took("they come back", len(f.leaders), began, "each waits")
	if err := f.NobodyElse(); err != nil {
		return err
	}
	for i, w := range f.leaders {
		if err := f.listed(w); err != nil {
			return fmt.Errorf("election %d: %w", i, err)
		}
	}
	return nil
}

func (f *field) ledBy(s *side) (led []crowd.Win) {
	for i, w := range f.leaders {
		if w.Candidate == s.candidates[i] {
			led = append(led, w)
		}
	}
	return led
}

// listed holds that the service has each side once in the election that w leads.
func (f *field) listed(w crowd.Win) error {
	ctx, cancel := context.WithTimeout(f.Context(), patience)
	defer cancel()
	all, err := w.Elector.Candidates(ctx)
	if err != nil {
		return err
	}
	if len(all) != 2 || all[0].ID != w.ID || all[1].ID == w.ID || !w.Term.Valid() {
		return fmt.Errorf("%s leads, valid: %t, and the service lists %+v", w.ID, w.Term.Valid(), names(all))
	}
	return nil
}

func names(all []elector.Candidate) (ids []string) {
	for _, c := range all {
		ids = append(ids, c.ID)
	}
	return ids
}
