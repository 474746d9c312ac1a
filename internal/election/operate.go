package election

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/delay"
	"github.com/elector-go/elector/internal/layout"
	"github.com/elector-go/elector/strategy"
)

// A Request asks a leader to go, and a Designation names the candidate that an operator wants to lead.
type (
	Request     = layout.Request
	Designation = layout.Designation
)

// MaxRequest is the maximum total size of the texts of a Request or a Designation in bytes.
const MaxRequest = 1 << 10

// Ask asks the leader at the time of the write to go, and returns it: see inspect.Inspector.Ask.
func (e *Election) Ask(ctx context.Context, s *backend.Session, r Request) (leader strategy.Leader, err error) {
	if n := len(r.By) + len(r.Why) + len(r.To); n > MaxRequest {
		return leader, fmt.Errorf("Request: By, Why and To have %d bytes, at most %d may be: %w", n, MaxRequest, strategy.ErrConfig)
	}
	if r.To != "" {
		if _, err := e.Transferrer(); err != nil {
			return strategy.Leader{}, err
		}
	}
	if err := e.CatchUp(ctx, s); err != nil { // its server may be behind
		return strategy.Leader{}, err
	}
	var retry delay.Backoff
	var first uint64 // incarnation of the first leader's entry
	stands := false  // whether the named candidate has been found
	for {
		dir, _, err := e.Read(ctx, s)
		if err == nil {
			leader, err = e.Leader(ctx, s, dir)
		}
		if err != nil {
			return strategy.Leader{}, err
		}
		if !leader.Seat.Exists() {
			return strategy.Leader{}, fmt.Errorf("strategy %q does not tell the leader's entry: Leader.Seat of what Observe yields is empty", e.Strategy.Name())
		}
		switch {
		case first == 0:
			first = leader.Seat.Rev
		case first != leader.Seat.Rev:
			return strategy.Leader{}, fmt.Errorf("%w any more that was to be asked: %q leads now", ErrNoLeader, leader.ID)
		}
		if r.To != "" && !stands {
			if _, err := e.Heir(ctx, s, dir, leader.Seat, r.To); err != nil {
				return strategy.Leader{}, err
			}
			stands = true // to look again each time would let the leader write in between each time
		}
		if standing, asked := layout.Asked(leader.Seat.Value); asked {
			if r.To != "" && r.To != standing.To {
				return strategy.Leader{}, fmt.Errorf("%q %w already %v", leader.ID, ErrAsked, standing)
			}
			return leader, nil
		}
		payload, err := layout.Ask(leader.Seat.Value, r)
		if err != nil {
			return strategy.Leader{}, fmt.Errorf("%s: %w", leader.Seat.Key, err)
		}
		_, err = s.Commit(ctx, []backend.Condition{backend.IfUnchanged(leader.Seat)}, backend.Update(leader.Seat, payload))
		if !errors.Is(err, backend.ErrCondition) && !errors.Is(err, backend.ErrNoEntry) {
			return leader, err
		}
		// The leader has written meanwhile, or there is another leader.
		if cause := delay.Sleep(ctx, retry.Next(time.Millisecond, 100*time.Millisecond)); cause != nil {
			return strategy.Leader{}, fmt.Errorf("%w: the leader's entry has changed before each of %d tries: %w", cause, retry.Attempt, err)
		}
	}
}

// Record reads the election's record; ErrNoElection if there is none.
func (e *Election) Record(ctx context.Context, s *backend.Session) (layout.Record, backend.Entry, error) {
	if err := e.CatchUp(ctx, s); err != nil { // its server may be behind
		return layout.Record{}, backend.Entry{}, err
	}
	dir, entry, err := e.Read(ctx, s)
	if err == nil && dir == "" {
		err = ErrNoElection
	}
	if err != nil {
		return layout.Record{}, entry, err
	}
	record, err := layout.DecodeRecord(entry.Value)
	return record, entry, err
}

// Designate writes the record, and tries again while somebody else changes it. An empty ID takes a designation
// back: see inspect.Inspector.Designate.
func (e *Election) Designate(ctx context.Context, s *backend.Session, d Designation) error {
	if _, heeds := e.Strategy.(strategy.Designator); !heeds {
		return fmt.Errorf("strategy %q: %w", e.Strategy.Name(), ErrNoDesignation)
	}
	var retry delay.Backoff
	for {
		record, entry, err := e.Record(ctx, s)
		if err != nil {
			return err
		}
		record.Designated = nil
		if d.ID != "" {
			record.Designated = &d
		}
		// On ZooKeeper, the version alone does not distinguish incarnations.
		_, err = s.Commit(ctx, []backend.Condition{backend.IfExists(entry)}, backend.CompareAndSet(entry.Key, record.Encode(), entry.Version))
		if !errors.Is(err, backend.ErrConflict) && !errors.Is(err, backend.ErrCondition) {
			return err
		}
		if cause := delay.Sleep(ctx, retry.Next(time.Millisecond, 100*time.Millisecond)); cause != nil {
			return fmt.Errorf("%w: the record has changed before each of %d tries: %w", cause, retry.Attempt, err)
		}
	}
}

// Remove removes the record and the directory, if nobody stands there: see inspect.Inspector.Remove.
func (e *Election) Remove(ctx context.Context, s *backend.Session) error {
	if e.Foreign {
		return fmt.Errorf("%q keeps its tokens in the service, and they must not begin at 1 again: %w", e.Strategy.Name(), strategy.ErrConfig)
	}
	for first := true; ; first = false {
		dir, record, err := e.Read(ctx, s)
		if err == nil && dir == "" && first { // or its server does not know of it yet
			if err = e.CatchUp(ctx, s); err == nil {
				continue
			}
		}
		if err == nil && dir != "" {
			err = e.remove(ctx, s, dir, record)
		}
		if !errors.Is(err, backend.ErrCondition) { // otherwise somebody has founded the election again, or removed it
			return err
		}
	}
}

// remove removes the directory and then the record. ErrCondition means that the record has changed.
//
// # Why no two candidates lead
//
//   - The directory goes first, and only if it is empty. From then on nobody enters it: a candidate that
//     read the record before is refused (ErrNoParent). The directory is never made again.
//   - Consul checks right before it deletes, so a candidate may enter in between. The record still names
//     the directory, and a candidate that is refused there founds a new one only when nobody leads in it
//     any more: see Refound. So it is safe to stop here, because of an error, the end of the process, or a
//     candidate that stands.
//   - The record goes when nobody stands in the directory and the record has not changed. On ZooKeeper,
//     which compares versions and not incarnations, a record that was founded again may look unchanged:
//     then its directory is below it, and it is not deleted.
func (e *Election) remove(ctx context.Context, s *backend.Session, dir string, record backend.Entry) error {
	unchanged := []backend.Condition{backend.IfUnchanged(record)}
	entry, err := s.Get(ctx, dir)
	if err == nil {
		_, err = s.Commit(ctx, unchanged, backend.Delete(entry))
	}
	switch {
	case errors.Is(err, backend.ErrNoEntry): // deleted by an earlier call
	case errors.Is(err, backend.ErrConflict):
		return e.inUse(ctx, s, dir, err)
	case err != nil:
		return err
	}
	standing, err := e.Strategy.Candidates(ctx, s, dir)
	if err == nil && len(standing) > 0 {
		err = fmt.Errorf("%w: candidate %q came at the last moment", ErrInUse, standing[0].ID)
	}
	if err != nil {
		return err
	}
	_, err = s.Commit(ctx, unchanged, backend.Delete(record))
	if errors.Is(err, backend.ErrConflict) || errors.Is(err, backend.ErrNoEntry) {
		return nil // other keys are below it, or somebody else has removed it
	}
	return err
}

// inUse returns an ErrInUse that says who stands in the directory or, if nobody does, what the service
// says.
func (e *Election) inUse(ctx context.Context, s *backend.Session, dir string, why error) error {
	switch standing, err := e.Strategy.Candidates(ctx, s, dir); {
	case err != nil || len(standing) == 0:
		return fmt.Errorf("%w: %v", ErrInUse, why)
	case len(standing) == 1:
		return fmt.Errorf("%w: candidate %q stands", ErrInUse, standing[0].ID)
	default:
		return fmt.Errorf("%w: %d candidates stand, %q among them", ErrInUse, len(standing), standing[0].ID)
	}
}

// Visit calls do on an election, in a session of its own.
func Visit(ctx context.Context, b backend.Backend, by strategy.Strategy, path string, do func(*Election, *backend.Session) error) error {
	if err := backend.CheckKey(path); err != nil && path != "/" {
		return fmt.Errorf("%w: %w", err, strategy.ErrConfig)
	}
	s, err := b.Open(ctx, backend.OpenOptions{})
	if err != nil {
		return err
	}
	defer func() {
		done, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		_ = s.Close(done) // it has no entries that anybody would wait for
	}()
	return do(New(path, by), s)
}

// Ask is Election.Ask in a session of its own: suites and tests have the strategy at hand, and others use
// package inspect.
func Ask(ctx context.Context, b backend.Backend, by strategy.Strategy, path string, r Request) (leader strategy.Leader, err error) {
	err = Visit(ctx, b, by, path, func(e *Election, s *backend.Session) (err error) {
		leader, err = e.Ask(ctx, s, r)
		return err
	})
	return leader, err
}

// Designate is Election.Designate in a session of its own.
func Designate(ctx context.Context, b backend.Backend, by strategy.Strategy, path string, d Designation) error {
	return Visit(ctx, b, by, path, func(e *Election, s *backend.Session) error { return e.Designate(ctx, s, d) })
}

// Remove is Election.Remove in a session of its own.
func Remove(ctx context.Context, b backend.Backend, by strategy.Strategy, path string) error {
	return Visit(ctx, b, by, path, func(e *Election, s *backend.Session) error { return e.Remove(ctx, s) })
}
