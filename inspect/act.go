package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/election"
)

// MaxRequest is the maximum total size of a Request's By, Why and To, or a Designation's By and Why: 1024 bytes.
const MaxRequest = election.MaxRequest

// Ask asks the leader of an election to go, and returns the leader that was asked; elector.ErrNoLeader if
// nobody leads.
//
// Ask writes the request into the leader's own entry, which the leader already watches. Nobody takes the
// seat away: the leader stops its work and then resigns (see elector.Run and Term.Asked), so that two never
// act at the same instant. A leader that ignores the request continues to lead. A leader that has already
// been asked is not asked again: Leader.Asked returns the earlier request, which stays. This is
// elector.ErrAsked if the new request names another candidate to lead next. Ask does not wait for the leader
// to go: watch the election for that. If the leader goes before it could be asked, Ask returns ErrNoLeader
// and does not ask the next one.
//
// A leader that asks itself to go (Config.Fit, a rank below zero) ignores later requests: it goes, but not
// in favor of the candidate that such a request names.
//
// If the request names who should lead next, the strategy must be a Transferrer (elector.ErrNoTransfer), and
// the candidate must stand (elector.ErrNoCandidate): otherwise nothing is written. If the candidate cannot be
// made next, for example because it has gone meanwhile, the leader goes all the same.
//
// A leader that publishes values faster than Ask can read and write may not be reached: then Ask ends with
// ctx's error, and the error says so.
//
// It blocks for a few round trips. The other errors are those of Leader and of Session.Commit, and
// ErrUnknownStrategy; backend.ErrIndeterminate means that the leader may have been asked. elector.ErrConfig
// means that an argument is wrong.
func (i *Inspector) Ask(ctx context.Context, path string, r elector.Request) (Leader, error) {
	var asked Leader
	err := i.act(ctx, "ask the leader of", path, func(ctx context.Context, s *backend.Session, e found) error {
		leader, err := e.election().Ask(ctx, s, election.Request(r))
		if l := leaderOf(leader); l != nil {
			asked = *l
		}
		return err
	})
	return asked, err
}

// Transfer is Ask with the ID of the candidate that should lead next.
func (i *Inspector) Transfer(ctx context.Context, path, to string, r elector.Request) (Leader, error) {
	if r.To = to; to == "" {
		return Leader{}, fmt.Errorf("inspect: transfer %s: the ID of the candidate that is to lead is empty: name it, or Ask: %w", path, elector.ErrConfig)
	}
	return i.Ask(ctx, path, r)
}

// A Designation says which candidate an operator wants to lead.
type Designation struct {
	// ID is the candidate's ID. The candidate need not stand yet.
	ID string `json:"id"`
	// By is who wants it, and Why is the reason: for people.
	By  string `json:"by,omitempty"`
	Why string `json:"why,omitempty"`
}

// Designate makes a candidate outrank all others until Undesignate or another Designate. The designation is
// kept in the election's record, where View.Designated shows it. It outlives candidates, terms and servers, but
// not an operator who deletes the record or the election's directory. Of several candidates with the ID, the
// best one is preferred.
//
// It does not move leadership by itself: the candidate leads at the next vacancy, or unseats the leader if
// the strategy does so (ranked.Strategy.Preempt). To make it lead now, designate it, and then Ask. While
// it does not stand, or may not lead, the others behave as if nobody were designated.
//
// elector.ErrNoElection means that nobody has founded the election yet, and elector.ErrNoDesignation that
// its strategy heeds no designation. It blocks for a few round trips. The other errors are those of Ask.
func (i *Inspector) Designate(ctx context.Context, path string, d Designation) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("inspect: designate in %s: "+format+": %w", append(append([]any{path}, args...), elector.ErrConfig)...)
	}
	switch texts := len(d.By) + len(d.Why); {
	case d.ID == "":
		return bad("the ID is empty: name a candidate, or Undesignate")
	case len(d.ID) > elector.MaxID:
		return bad("the ID of %d bytes is too long: at most %d", len(d.ID), elector.MaxID)
	case texts > MaxRequest:
		return bad("the texts By and Why have %d bytes, at most %d may be", texts, MaxRequest)
	}
	return i.designate(ctx, "designate in", path, d)
}

// Undesignate takes a designation back. It is no error if nobody is designated.
func (i *Inspector) Undesignate(ctx context.Context, path string) error {
	return i.designate(ctx, "undesignate in", path, Designation{})
}

func (i *Inspector) designate(ctx context.Context, what, path string, d Designation) error {
	return i.act(ctx, what, path, func(ctx context.Context, s *backend.Session, e found) error {
		return e.election().Designate(ctx, s, election.Designation(d))
	})
}

// act finds an election and changes it, if its strategy is known.
func (i *Inspector) act(ctx context.Context, what, path string, do func(context.Context, *backend.Session, found) error) error {
	ctx, cancel := i.bind(ctx)
	defer cancel()
	s, _, err := i.begin(ctx, path)
	var e found
	if err == nil {
		e, err = i.find(ctx, s, path)
	}
	if err == nil && e.strategy.unknown {
		err = fmt.Errorf("%w: %q: give it in Options.Strategies", ErrUnknownStrategy, e.strategy.use.Name())
	}
	if err == nil {
		err = do(ctx, s, e)
	}
	return fail(ctx, what, path, err)
}

// RemoveOptions configure Remove.
type RemoveOptions struct {
	// Evict first deletes the candidates' entries, the leader's last, and everything else in the
	// election's directory. It is for entries that somebody has left behind. It deposes a running leader
	// (elector.ErrDeposed), and running processes stand again at once: stop them before.
	Evict bool

	_ struct{}
}

// Removed is what Remove has removed.
type Removed struct {
	Election string `json:"election"`
	Strategy string `json:"strategy"`
	// Entries are the keys of the deleted candidates' entries, with Evict.
	Entries []string `json:"entries,omitempty"`
	// Directory is the key of the election's directory.
	Directory string `json:"directory,omitempty"`
	// Kept says why the record was kept; "" if it is gone, too.
	Kept string `json:"kept,omitempty"`
}

// Remove removes what an election leaves in the service after all its candidates have gone: the record at
// its path, and its directory. What it returns with an error has been removed.
//
// elector.ErrInUse means that somebody stands in it, and Evict is not set. Then the election continues as
// before, and Remove may be called again later, as after any other error. elector.ErrNoElection means that
// there is no election. elector.ErrConfig means that an argument is wrong. It is also the error for a
// CustomLayout strategy: its tokens are kept in the service, and would start again.
//
// It may be called at any time. A candidate that enters meanwhile stands in the election, or founds it
// again. Tokens continue to rise: they are the service's revisions, which do not depend on the election.
//
// If other keys are below the path, such as your own, the record stays as their parent. The parents of the
// path always stay: nobody knows who else uses them.
//
// It blocks for a few round trips. While no server can be reached, the error is backend.ErrUnavailable, or
// ctx's error.
func (i *Inspector) Remove(ctx context.Context, path string, o RemoveOptions) (Removed, error) {
	gone := Removed{Election: path}
	err := i.act(ctx, "remove", path, func(ctx context.Context, s *backend.Session, e found) error {
		gone.Strategy = e.strategy.use.Name()
		_, there := s.Get(ctx, e.dir)
		err := i.remove(ctx, s, e, o, &gone)
		if err != nil {
			return err
		}
		if there == nil {
			gone.Directory = e.dir
		}
		left, err := i.find(ctx, s, e.path)
		switch {
		case errors.Is(err, elector.ErrNoElection):
			return nil
		case err == nil && left.dir == e.dir:
			gone.Kept = "other keys are below " + e.path
		case err == nil:
			gone.Kept = "somebody has founded the election again"
		}
		if err != nil {
			gone.Kept = "what is left cannot be read: " + err.Error()
		}
		return nil
	})
	return gone, err
}

func (i *Inspector) remove(ctx context.Context, s *backend.Session, e found, o RemoveOptions, gone *Removed) error {
	const tries = 10
	for n := 1; ; n++ {
		before, of := len(gone.Entries), e.election()
		if o.Evict && !of.Foreign {
			if err := e.evict(ctx, s, gone); err != nil {
				return err
			}
		}
		err := of.Remove(ctx, s)
		if !o.Evict || !errors.Is(err, elector.ErrInUse) {
			return err
		}
		switch {
		case n < tries:
		case len(gone.Entries) == before:
			return e.handwork()
		default:
			return fmt.Errorf("%w: they have come back %d times: stop the processes first", err, tries)
		}
		if pause(ctx, 100*time.Millisecond); ctx.Err() != nil {
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		again, err := i.find(ctx, s, e.path) // a candidate that has come back may have founded it again
		switch {
		case errors.Is(err, elector.ErrNoElection):
			return nil
		case err == nil && again.strategy.use.Name() != e.strategy.use.Name():
			err = fmt.Errorf("%w: somebody has founded it again with %q", elector.ErrStrategyMismatch, again.strategy.use.Name())
		}
		if err != nil {
			return err
		}
		e = again
	}
}

// handwork is the error if the directory has what evict does not delete, such as keys that are no entries.
func (e found) handwork() error {
	return fmt.Errorf("%w: keys that nobody holds are in %s: delete them by hand", elector.ErrInUse, e.dir)
}

// evict deletes everything in the directory, the leader's entry last: until then nobody else leads.
func (e found) evict(ctx context.Context, s *backend.Session, gone *Removed) error {
	for more := true; more; {
		var keys []string
		var err error
		if keys, more, err = s.Children(ctx, e.dir, page); err != nil {
			return err
		}
		if more && len(keys) == 0 { // the service does not list that many
			return fmt.Errorf("%w: more than %d stand: stop them first", elector.ErrInUse, page)
		}
		leader, err := e.leader(ctx, s)
		if err != nil {
			return err
		}
		keys = slices.DeleteFunc(keys, func(key string) bool { return key == leader.Seat.Key })
		slices.Sort(keys)
		slices.Reverse(keys)
		if !more && !leader.Vacant() {
			keys = append(keys, leader.Seat.Key)
		}
		before := len(gone.Entries)
		for _, key := range keys {
			entry, err := s.Get(ctx, key)
			if err == nil {
				_, err = s.Commit(ctx, nil, backend.Delete(entry))
			}
			switch {
			case errors.Is(err, backend.ErrNoEntry), errors.Is(err, backend.ErrConflict): // gone since, or other keys are below it
			case err != nil:
				return err
			default:
				gone.Entries = append(gone.Entries, key)
			}
		}
		if more && len(gone.Entries) == before {
			return e.handwork()
		}
	}
	return nil
}
