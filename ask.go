package elector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/layout"
)

// A Request asks a leader to go. It is about the term that it was written in, and no later one.
type Request struct {
	// By is who asks, and Why the reason: for people, in the leader's log and hooks.
	By  string `json:"by,omitempty"`
	Why string `json:"why,omitempty"`
	// To is the ID of the candidate that is to lead next, or "" for whoever is next: see
	// Term.Transfer.
	To string `json:"to,omitempty"`
}

// String returns for example `by "anna": "deploy"`, in quotes, as somebody else has written it.
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

// MaxRequest is the size of a Request's By, Why and To together, in bytes.
const MaxRequest = 1 << 10

// Ask asks the leader of an election to go, and returns who was asked: ErrNoLeader if nobody leads.
// strategy is the one that the election was founded with (ErrStrategyMismatch).
//
// The request is written into the leader's own entry, which the leader watches anyway. Nobody takes
// the seat away: the leader stops its work, and then resigns (see Run and Term.Asked), so that at no
// instant two act. A leader that does not heed it leads on. One that has been asked already is not
// asked again: that is ErrAsked where the request names another to lead next. Ask does not wait for the
// leader to go: observe the election for that. Nor does it ask the next one, should the leader have gone
// before it could be asked: that is ErrNoLeader.
//
// A leader that asks itself to go (Config.Fit, a rank below zero) heeds no other request any more: it
// goes, and not for the one that the request names.
//
// If the request names who is to lead next, the strategy has to be a Transferrer (ErrNoTransfer), and
// such a candidate has to stand (ErrNoCandidate): otherwise nothing is written. If it cannot be made
// the next, because it has gone since, say, the leader goes all the same.
//
// A leader that publishes values faster than one can read and write may not be reached: then it is
// ctx's error that ends Ask, which names this.
//
// It opens a session, and blocks for that and a few round trips. The errors are those of Session.Commit;
// ErrIndeterminate says that the leader may have been asked. ErrConfig says that an argument is wrong.
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

// ask asks whoever leads when it can be written, and returns who that is.
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
	var first uint64 // the incarnation of the leader's entry at first
	stands := false  // the candidate that is to lead next
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
		// The leader has written meanwhile, or there is another.
		if cause := sleep(ctx, retry.next(time.Millisecond, 100*time.Millisecond)); cause != nil {
			return Leader{}, fmt.Errorf("%w: the leader's entry has changed before each of %d tries: %w", cause, retry.attempt, err)
		}
	}
}
