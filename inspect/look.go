package inspect

import (
	"context"

	"github.com/elector-go/elector"
)

// Leader returns who leads an election, and with which strategy. It is no error if nobody leads: then
// View.Leader is nil. elector.ErrNoElection means that nobody has founded the election, or that something
// else is at the path, and elector.ErrConfig that the path is invalid. The View was true when Leader was
// called, or later.
//
// While the service cannot be reached, Leader waits as long as its session may live, so give ctx a
// deadline. Then the error is backend.ErrUnavailable, backend.ErrSessionLost, or ctx's.
func (i *Inspector) Leader(ctx context.Context, election string) (View, error) {
	return i.look(ctx, "leader of", election, false)
}

// Candidates also returns who stands: it reads the entry of each candidate. The errors are those of
// Leader.
func (i *Inspector) Candidates(ctx context.Context, election string) (View, error) {
	return i.look(ctx, "candidates of", election, true)
}

func (i *Inspector) look(ctx context.Context, what, path string, all bool) (View, error) {
	ctx, cancel := i.bind(ctx)
	defer cancel()
	s, at, err := i.begin(ctx, path)
	if err != nil {
		return View{}, fail(ctx, what, path, err)
	}
	// The two reads are not atomic: the leader may change in between.
	const looks = 5
	for n := 1; ; n++ {
		e, err := i.find(ctx, s, path)
		if err != nil {
			return View{}, fail(ctx, what, path, err)
		}
		v := e.view(at)
		leader, err := e.leader(ctx, s)
		if err != nil {
			return View{}, fail(ctx, what, path, err)
		}
		v.Leader = leaderOf(leader)
		if !all {
			return v, nil
		}
		listed, err := e.strategy.use.Candidates(ctx, s, e.dir)
		if err != nil {
			return View{}, fail(ctx, what, path, err)
		}
		v = v.standing(candidatesOf(listed), leader)
		v.Count = len(v.Candidates)
		if agree(leader, listed) || n == looks {
			return v, nil
		}
	}
}

// agree reports whether a list of candidates shows the same leader as was read before.
func agree(l elector.Leader, listed []elector.Candidate) bool {
	found := l.Vacant()
	for _, c := range listed {
		if is := leads(l, c.Entry.Key, c.Entry.Rev); is != c.Leads {
			return false
		} else if is {
			found = true
		}
	}
	return found
}
