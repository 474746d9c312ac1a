package elector

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

// A Request asks a leader to go. It applies only to the term that it was written in.
type Request struct {
	// By is who asks, and Why is the reason: for people, in the leader's log and hooks.
	By  string `json:"by,omitempty"`
	Why string `json:"why,omitempty"`
	// To is the ID of the candidate that should lead next, or "" for any: see Term.Transfer.
	To string `json:"to,omitempty"`
}

// String returns, for example, `by "anna": "deploy"`. It quotes the texts because somebody else wrote
// them.
func (r Request) String() string {
	s := "by somebody"
	if r.By != "" {
		s = fmt.Sprintf("by %q", r.By)
	}
	if r.Why != "" {
		s += fmt.Sprintf(": %q", r.Why)
	}
	if r.To != "" {
		s += fmt.Sprintf(", for %q to lead", r.To)
	}
	return s
}

// MaxRequest is the maximum total size of a Request's By, Why and To in bytes.
const MaxRequest = 1 << 10

// Ask asks the leader of an election to go, and returns the leader that was asked; ErrNoLeader if nobody
// leads. strategy must be the one that the election was founded with (ErrStrategyMismatch).
//
// Ask writes the request into the leader's own entry, which the leader already watches. Nobody takes the
// seat away: the leader stops its work and then resigns (see Run and Term.Asked), so that two never act at
// the same instant. A leader that ignores the request continues to lead. A leader that has already been
// asked is not asked again; this is ErrAsked if the new request names another candidate to lead next. Ask
// does not wait for the leader to go: observe the election for that. If the leader goes before it could be
// asked, Ask returns ErrNoLeader and does not ask the next one.
//
// A leader that asks itself to go (Config.Fit, a rank below zero) ignores later requests: it goes, but not
// in favor of the candidate that such a request names.
//
// If the request names who should lead next, the strategy must be a strategy.Transferrer (ErrNoTransfer), and the
// candidate must stand (ErrNoCandidate): otherwise nothing is written. If the candidate cannot be made
// next, for example because it has gone meanwhile, the leader goes all the same.
//
// A leader that publishes values faster than Ask can read and write may not be reached: then Ask ends with
// ctx's error, and the error says so.
//
// It opens a session, and blocks for that and a few round trips. The errors are those of Session.Commit;
// ErrIndeterminate means that the leader may have been asked. ErrConfig means that an argument is wrong.
func Ask(ctx context.Context, b backend.Backend, by strategy.Strategy, election string, r Request) (leader Leader, err error) {
	if n := len(r.By) + len(r.Why) + len(r.To); n > MaxRequest {
		err = fmt.Errorf("Request: By, Why and To have %d bytes, at most %d may be: %w", n, MaxRequest, ErrConfig)
	} else {
		err = visit(ctx, b, by, election, func(e *elector, s *backend.Session) (err error) {
			leader, err = e.ask(ctx, s, r)
			return err
		})
	}
	if err != nil {
		return Leader{}, fmt.Errorf("elector: ask the leader of %s: %w", election, err)
	}
	return leader, nil
}

// ask asks the leader at the time of the write, and returns it.
func (e *elector) ask(ctx context.Context, s *backend.Session, r Request) (leader Leader, err error) {
	if r.To != "" {
		if _, err := e.transferrer(); err != nil {
			return Leader{}, err
		}
	}
	if err := e.catchUp(ctx, s); err != nil { // its server may be behind
		return Leader{}, err
	}
	var retry delay.Backoff
	var first uint64 // incarnation of the first leader's entry
	stands := false  // whether the named candidate has been found
	for {
		dir, _, err := e.read(ctx, s)
		if err == nil {
			leader, err = e.leader(ctx, s, dir)
		}
		if err != nil {
			return Leader{}, err
		}
		if !leader.Seat.Exists() {
			return Leader{}, fmt.Errorf("strategy %q does not tell the leader's entry: Leader.Seat of what Observe yields is empty", e.cfg.Strategy.Name())
		}
		switch {
		case first == 0:
			first = leader.Seat.Rev
		case first != leader.Seat.Rev:
			return Leader{}, fmt.Errorf("%w any more that was to be asked: %q leads now", ErrNoLeader, leader.ID)
		}
		if r.To != "" && !stands {
			if _, err := e.heir(ctx, s, dir, leader.Seat, r.To); err != nil {
				return Leader{}, err
			}
			stands = true // to look again each time would let the leader write in between each time
		}
		if standing, asked := layout.Asked(leader.Seat.Value); asked {
			if r.To != "" && r.To != standing.To {
				return Leader{}, fmt.Errorf("%q %w already %v", leader.ID, ErrAsked, Request(standing))
			}
			return leader, nil
		}
		payload, err := layout.Ask(leader.Seat.Value, layout.Request(r))
		if err != nil {
			return Leader{}, fmt.Errorf("%s: %w", leader.Seat.Key, err)
		}
		_, err = s.Commit(ctx, []backend.Condition{backend.IfUnchanged(leader.Seat)}, backend.Update(leader.Seat, payload))
		if !errors.Is(err, backend.ErrCondition) && !errors.Is(err, backend.ErrNoEntry) {
			return leader, err
		}
		// The leader has written meanwhile, or there is another leader.
		if cause := delay.Sleep(ctx, retry.Next(time.Millisecond, 100*time.Millisecond)); cause != nil {
			return Leader{}, fmt.Errorf("%w: the leader's entry has changed before each of %d tries: %w", cause, retry.Attempt, err)
		}
	}
}

// A Designation says which candidate an operator wants to lead.
type Designation struct {
	// ID is the candidate's ID. The candidate need not stand yet.
	ID string `json:"id"`
	// By is who wants it, and Why is the reason: for people.
	By  string `json:"by,omitempty"`
	Why string `json:"why,omitempty"`
}

// Designate makes a candidate outrank all others until it is called with a Designation without an ID. The
// designation is kept in the election's record, and outlives candidates, terms and servers, but not an
// operator who deletes the record or the election's directory. Of several candidates with the ID, the best
// one is preferred. strategy must be the one that the election was
// founded with (ErrStrategyMismatch).
//
// It does not move leadership by itself: the candidate leads at the next vacancy, or unseats the leader if
// the strategy does so (ranked.Strategy.Preempt). To make it lead now, designate it, and then Ask. While
// it does not stand, or may not lead, the others behave as if nobody were designated.
//
// ErrNoElection means that nobody has founded the election yet, and ErrNoDesignation that its strategy
// heeds no designation. It opens a session, and blocks for that and a few round trips. The other errors
// are those of Session.Commit, and ErrConfig.
func Designate(ctx context.Context, b backend.Backend, by strategy.Strategy, election string, d Designation) error {
	err := d.check(by)
	if err == nil {
		err = visit(ctx, b, by, election, func(e *elector, s *backend.Session) error { return e.designate(ctx, s, d) })
	}
	if err != nil {
		return fmt.Errorf("elector: designate %q in %s: %w", d.ID, election, err)
	}
	return nil
}

// Designated returns the Designation of an election, or the zero Designation if nobody is designated. The
// errors are those of Designate.
func Designated(ctx context.Context, b backend.Backend, by strategy.Strategy, election string) (d Designation, err error) {
	err = d.check(by)
	if err == nil {
		err = visit(ctx, b, by, election, func(e *elector, s *backend.Session) error {
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

func (d Designation) check(by strategy.Strategy) error {
	if _, heeds := by.(strategy.Designator); !heeds && !isNil(by) {
		return fmt.Errorf("strategy %q: %w", by.Name(), ErrNoDesignation)
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
	var retry delay.Backoff
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
		if cause := delay.Sleep(ctx, retry.Next(time.Millisecond, 100*time.Millisecond)); cause != nil {
			return fmt.Errorf("%w: the record has changed before each of %d tries: %w", cause, retry.Attempt, err)
		}
	}
}

// Remove removes what an election leaves in the service after all its candidates have gone: the record at
// its path, and its directory. strategy must be the one that it was founded with (ErrStrategyMismatch). It
// is no error if the election does not exist.
//
// ErrInUse means that somebody stands in it. Then the election continues as before, and Remove may be
// called again later, as after any other error. ErrConfig means that an argument is wrong. It is also the
// error for a CustomLayout strategy: its tokens are kept in the service, and would start again.
//
// It may be called at any time. A candidate that enters meanwhile stands in the election, or founds it
// again. Tokens continue to rise: they are the service's revisions, which do not depend on the election.
//
// If other keys are below the path, such as your own, the record stays as their parent. The parents of the
// path always stay: nobody knows who else uses them.
//
// It opens a session, and blocks for that and a few round trips. While no server can be reached, the error
// is backend.ErrUnavailable, or ctx's error.
func Remove(ctx context.Context, b backend.Backend, by strategy.Strategy, election string) error {
	fail := func(err error) error { return fmt.Errorf("elector: remove %s: %w", election, err) }
	if _, foreign := by.(strategy.CustomLayout); foreign && !isNil(by) {
		return fail(fmt.Errorf("%q keeps its tokens in the service, and they must not begin at 1 again: %w", by.Name(), ErrConfig))
	}
	err := visit(ctx, b, by, election, func(e *elector, s *backend.Session) error {
		for first := true; ; first = false {
			dir, record, err := e.read(ctx, s)
			if err == nil && dir == "" && first { // or its server does not know of it yet
				if err = e.catchUp(ctx, s); err == nil {
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
	})
	if err != nil {
		return fail(err)
	}
	return nil
}

// visit calls do on an election in a session of its own, without a candidate.
func visit(ctx context.Context, b backend.Backend, by strategy.Strategy, election string, do func(*elector, *backend.Session) error) error {
	cfg := Config{Backend: b, Strategy: by, Election: election, ID: "0"} // every layout accepts this ID
	if err := cfg.validate(""); err != nil {
		return err
	}
	id, foreign, _ := cfg.identify() // validate has checked the error
	s, err := b.Open(ctx, backend.OpenOptions{})
	if err != nil {
		return err
	}
	defer func() {
		done, cancel := cleanup(ctx)
		defer cancel()
		_ = s.Close(done) // it has no entries that anybody would wait for
	}()
	return do(&elector{cfg: cfg, id: id, foreign: foreign}, s)
}

// remove removes the directory and then the record. ErrCondition means that the record has changed.
//
// # Why no two candidates lead
//
//   - The directory goes first, and only if it is empty. From then on nobody enters it: a candidate that
//     read the record before is refused (ErrNoParent). The directory is never made again.
//   - Consul checks right before it deletes, so a candidate may enter in between. The record still names
//     the directory, and a candidate that is refused there founds a new one only when nobody leads in it
//     any more: see refound. So it is safe to stop here, because of an error, the end of the process, or a
//     candidate that stands.
//   - The record goes when nobody stands in the directory and the record has not changed. On ZooKeeper,
//     which compares versions and not incarnations, a record that was founded again may look unchanged:
//     then its directory is below it, and it is not deleted.
func (e *elector) remove(ctx context.Context, s *backend.Session, dir string, record backend.Entry) error {
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
	standing, err := e.cfg.Strategy.Candidates(ctx, s, dir)
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
func (e *elector) inUse(ctx context.Context, s *backend.Session, dir string, why error) error {
	switch standing, err := e.cfg.Strategy.Candidates(ctx, s, dir); {
	case err != nil || len(standing) == 0:
		return fmt.Errorf("%w: %v", ErrInUse, why)
	case len(standing) == 1:
		return fmt.Errorf("%w: candidate %q stands", ErrInUse, standing[0].ID)
	default:
		return fmt.Errorf("%w: %d candidates stand, %q among them", ErrInUse, len(standing), standing[0].ID)
	}
}
