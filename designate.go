package elector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/layout"
)

// A Designation says which candidate an operator wants to lead.
type Designation struct {
	// ID is the candidate's ID. The candidate need not stand yet.
	ID string `json:"id"`
	// By is who wants it, and Why is the reason: for people.
	By  string `json:"by,omitempty"`
	Why string `json:"why,omitempty"`
}

// Designate makes a candidate outrank all others until it is called with a Designation without an ID. The
// designation is kept in the election's record, and outlives candidates, terms and servers. Of several
// candidates with the ID, the best one is preferred. strategy must be the one that the election was
// founded with (ErrStrategyMismatch).
//
// It does not move leadership by itself: the candidate leads at the next vacancy, or unseats the leader if
// the strategy does so (ranked.Strategy.Preempt). To make it lead now, designate it, and then Ask. While
// it does not stand, or may not lead, the others behave as if nobody were designated.
//
// ErrNoElection means that nobody has founded the election yet, and ErrNoDesignation that its strategy
// heeds no designation. It opens a session, and blocks for that and a few round trips. The other errors
// are those of Session.Commit, and ErrConfig.
func Designate(ctx context.Context, b backend.Backend, strategy Strategy, election string, d Designation) error {
	err := d.check(strategy)
	if err == nil {
		err = visit(ctx, b, strategy, election, func(e *elector, s *backend.Session) error { return e.designate(ctx, s, d) })
	}
	if err != nil {
		return fmt.Errorf("elector: designate %q in %s: %w", d.ID, election, err)
	}
	return nil
}

// Designated returns the Designation of an election, or the zero Designation if nobody is designated. The
// errors are those of Designate.
func Designated(ctx context.Context, b backend.Backend, strategy Strategy, election string) (d Designation, err error) {
	err = d.check(strategy)
	if err == nil {
		err = visit(ctx, b, strategy, election, func(e *elector, s *backend.Session) error {
			record, _, err := e.record(ctx, s)
			if err == nil && record.Designated != nil {
				d = Designation(*record.Designated)
			}
			return err
		})
	}
	if err != nil {
		return Designation{}, fmt.Errorf("elector: designated in %s: %w", election, err)
	}
	return d, nil
}

func (d Designation) check(strategy Strategy) error {
	if _, heeds := strategy.(Designator); !heeds && !isNil(strategy) {
		return fmt.Errorf("strategy %q: %w", strategy.Name(), ErrNoDesignation)
	}
	if len(d.ID) > MaxID {
		return fmt.Errorf("the ID of %d bytes is too long: at most %d: %w", len(d.ID), MaxID, ErrConfig)
	}
	if n := len(d.By) + len(d.Why); n > MaxRequest {
		return fmt.Errorf("the texts By and Why have %d bytes, at most %d may be: %w", n, MaxRequest, ErrConfig)
	}
	return nil
}

// record reads the election's record; ErrNoElection if there is none.
func (e *elector) record(ctx context.Context, s *backend.Session) (layout.Record, backend.Entry, error) {
	if err := e.catchUp(ctx, s); err != nil { // its server may be behind
		return layout.Record{}, backend.Entry{}, err
	}
	dir, entry, err := e.read(ctx, s)
	if err == nil && dir == "" {
		err = ErrNoElection
	}
	if err != nil {
		return layout.Record{}, entry, err
	}
	record, err := layout.DecodeRecord(entry.Value)
	return record, entry, err
}

// designate writes the record, and tries again while somebody else changes it.
func (e *elector) designate(ctx context.Context, s *backend.Session, d Designation) error {
	var retry backoff
	for {
		record, entry, err := e.record(ctx, s)
		if err != nil {
			return err
		}
		record.Designated = nil
		if d.ID != "" {
			record.Designated = (*layout.Designation)(&d)
		}
		// On ZooKeeper, the version alone does not distinguish incarnations.
		_, err = s.Commit(ctx, []backend.Condition{backend.IfExists(entry)}, backend.CompareAndSet(entry.Key, record.Encode(), entry.Version))
		if !errors.Is(err, backend.ErrConflict) && !errors.Is(err, backend.ErrCondition) {
			return err
		}
		if cause := sleep(ctx, retry.next(time.Millisecond, 100*time.Millisecond)); cause != nil {
			return fmt.Errorf("%w: the record has changed before each of %d tries: %w", cause, retry.attempt, err)
		}
	}
}
