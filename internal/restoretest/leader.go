package restoretest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy"
	"github.com/elector-go/elector/strategy/unfair"
)

// UnderALeader restores the service from a backup that has the leader's session, and not its entry, while
// the leader is cut off and writes. Another candidate leads when it is back. None of the old leader's writes
// is done, and its term ends.
func UnderALeader(t *testing.T, s Service, strategy strategy.Strategy) {
	underALeader(t, s, strategy, false)
}

// UnderALeaderAtOne is UnderALeader with a new leader whose entry is made at the revision of the old one's.
// start starts a service. It takes several if a server writes for itself in between.
func UnderALeaderAtOne(t *testing.T, start func(t *testing.T) Service) {
	for range 5 {
		if underALeader(t, start(t), unfair.Strategy{}, true) {
			return
		}
	}
	t.Fatal("no two seats had one revision: the premise")
}

// underALeader reports whether both leaders' entries have the same revision, and tries to make them so.
func underALeader(t *testing.T, s Service, strategy strategy.Strategy, atOne bool) (same bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wait.Patience)
	t.Cleanup(cancel)
	stand := func(id string) (e elector.Elector, cut, mend func()) {
		b, cut, mend := s.Process(t)
		e = must.Get(elector.New(elector.Config{Backend: b, Strategy: strategy, Election: "/restored", ID: id}))(t)
		t.Cleanup(func() { _ = e.Close(context.Background()) }) // a session may not have found its link again
		return e, cut, mend
	}
	vacant := func(e elector.Elector) { // and the candidate has a session
		t.Helper()
		require.ErrorIs(t, must.Err(e.Leader(ctx)), elector.ErrNoLeader)
	}
	founder, _, _ := stand("1")
	require.NoError(t, must.Get(founder.Campaign(ctx))(t).Resign(ctx))
	e, cut, mend := stand("2")
	vacant(e)
	s.BackUp(t)
	others := func(n int) { s.Others(t, func(uint64) bool { n--; return n < 0 }) }
	others(s.Between)
	old := must.Get(e.Campaign(ctx))(t)
	cut()
	const key = "/restored-written"
	writing := wait.Later(func() ([]backend.Entry, error) { return old.Commit(ctx, elector.Put(key, []byte("old"))) })
	s.Restore(t)
	next, _, _ := stand("3")
	vacant(next)
	if atOne {
		s.Others(t, func(newest uint64) bool { return newest >= old.Token()-1 })
	}
	led := must.Get(next.Campaign(ctx))(t)
	made := must.Get(led.Commit(ctx, elector.Put(key, []byte("new"))))(t)
	others(150) // a session may not come back to a server that is behind it
	mend()
	require.Error(t, must.Err(wait.Returned(t, writing)))
	wait.For(t, "the old term is over", func() bool { return !old.Valid() })
	require.Error(t, must.Err(old.Commit(ctx, elector.Put(key, []byte("late")))))
	assert.True(t, led.Valid())
	got := must.Get(led.Get(ctx, key))(t)
	assert.True(t, got.Same(made[0]), "%q", got.Value)
	return old.Token() == led.Token()
}
