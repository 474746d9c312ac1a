package elector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/layout"
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
// If the request names who should lead next, the strategy must be a Transferrer (ErrNoTransfer), and the
// candidate must stand (ErrNoCandidate): otherwise nothing is written. If the candidate cannot be made
// next, for example because it has gone meanwhile, the leader goes all the same.
//
// A leader that publishes values faster than Ask can read and write may not be reached: then Ask ends with
// ctx's error, and the error says so.
//
// It opens a session, and blocks for that and a few round trips. The errors are those of Session.Commit;
// ErrIndeterminate means that the leader may have been asked. ErrConfig means that an argument is wrong.
func Ask(ctx context.Context, b backend.Backend, strategy Strategy, election string, r Request) (leader Leader, err error) {
	if n := len(r.By) + len(r.Why) + len(r.To); n > MaxRequest {
		err = fmt.Errorf("Request: By, Why and To have %d bytes, at most %d may be: %w", n, MaxRequest, ErrConfig)
	} else {
		err = visit(ctx, b, strategy, election, func(e *elector, s *backend.Session) (err error) {
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
	var retry backoff
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
		if cause := sleep(ctx, retry.next(time.Millisecond, 100*time.Millisecond)); cause != nil {
			return Leader{}, fmt.Errorf("%w: the leader's entry has changed before each of %d tries: %w", cause, retry.attempt, err)
		}
	}
}
