package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/strategy"
)

// Ask asks the leader to go, and returns the leader that was asked. It has the contract of elector.Ask:
// elector.ErrNoLeader if nobody leads. If there was an earlier request, it stays in place of this one, and
// Leader.Asked returns it.
func (i *Inspector) Ask(ctx context.Context, election string, r elector.Request) (Leader, error) {
	var asked Leader
	err := i.act(ctx, "ask the leader of", election, func(ctx context.Context, _ *backend.Session, e found) error {
		leader, err := elector.Ask(ctx, i.backend, e.strategy.use, e.path, r)
		if l := leaderOf(leader); l != nil {
			asked = *l
		}
		return err
	})
	return asked, err
}

// Transfer is Ask with the ID of the candidate that should lead next: elector.ErrNoCandidate if no candidate
// with that ID waits, elector.ErrNoTransfer if the strategy cannot do it. In both cases nothing was
// written. It returns when the leader has been asked: watch the election to see the result.
func (i *Inspector) Transfer(ctx context.Context, election, to string, r elector.Request) (Leader, error) {
	if r.To = to; to == "" {
		return Leader{}, fmt.Errorf("inspect: transfer %s: the ID of the candidate that is to lead is empty: name it, or Ask: %w", election, elector.ErrConfig)
	}
	return i.Ask(ctx, election, r)
}

// Designate makes a candidate outrank all others. It has the contract of elector.Designate:
// elector.ErrNoDesignation if the strategy heeds no designation.
func (i *Inspector) Designate(ctx context.Context, election string, d elector.Designation) error {
	if d.ID == "" {
		return fmt.Errorf("inspect: designate in %s: the ID is empty: name a candidate, or Undesignate: %w", election, elector.ErrConfig)
	}
	return i.designate(ctx, "designate in", election, d)
}

// Undesignate takes a designation back. It is no error if nobody is designated.
func (i *Inspector) Undesignate(ctx context.Context, election string) error {
	return i.designate(ctx, "undesignate in", election, elector.Designation{})
}

func (i *Inspector) designate(ctx context.Context, what, election string, d elector.Designation) error {
	return i.act(ctx, what, election, func(ctx context.Context, _ *backend.Session, e found) error {
		return elector.Designate(ctx, i.backend, e.strategy.use, e.path, d)
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
	if err != nil {
		return fail(ctx, what, path, err)
	}
	if err = do(ctx, s, e); err != nil && ctx.Err() != nil {
		return fail(ctx, what, path, err)
	}
	return err // an error of package elector says what it is about
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

// Remove removes what an election has left. It has the contract of elector.Remove: it refuses with
// elector.ErrInUse while somebody stands, unless Evict is set. What it returns with an error has been
// removed.
func (i *Inspector) Remove(ctx context.Context, election string, o RemoveOptions) (Removed, error) {
	gone := Removed{Election: election}
	err := i.act(ctx, "remove", election, func(ctx context.Context, s *backend.Session, e found) error {
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
		before := len(gone.Entries)
		if _, foreign := e.strategy.use.(strategy.CustomLayout); o.Evict && !foreign {
			if err := e.evict(ctx, s, gone); err != nil {
				return fmt.Errorf("inspect: remove %s: %w", e.path, err)
			}
		}
		err := elector.Remove(ctx, i.backend, e.strategy.use, e.path)
		if !o.Evict || !errors.Is(err, elector.ErrInUse) {
			return err
		}
		switch {
		case n < tries:
		case len(gone.Entries) == before:
			return fmt.Errorf("inspect: remove %s: %w", e.path, e.handwork())
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
			return fmt.Errorf("inspect: remove %s: %w", e.path, err)
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
