package inspect_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/dial"
	"github.com/elector-go/elector/inspect"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/services"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy/fair"
	"github.com/elector-go/elector/strategy/kafka"
	"github.com/elector-go/elector/strategy/ranked"
	"github.com/elector-go/elector/strategy/unfair"
)

func TestMain(m *testing.M) { os.Exit(servertest.Main(m)) }

func TestOnServers(t *testing.T) {
	t.Parallel()
	services.OnEach(t, func(t *testing.T, s services.Service) {
		t.Parallel()
		onServer(t, s.URL(s.ForTest(t).Addr(), 30*time.Second))
	})
}

// onServer calls everything once, on an empty server.
func onServer(t *testing.T, url string) {
	ctx, cancel := context.WithTimeout(t.Context(), wait.Patience)
	defer cancel()
	open := func() backend.Backend {
		b := must.Get(dial.Open(ctx, url))(t)
		t.Cleanup(func() { assert.NoError(t, b.Close()) })
		return b
	}
	in := inspector(t, open(), inspect.Options{})
	// eventually waits until a view is as wanted.
	eventually := func(election, what string, is func(v inspect.View) bool) (v inspect.View) {
		t.Helper()
		var err error
		require.Eventually(t, func() bool {
			v, err = in.Candidates(ctx, election)
			return err == nil && is(v)
		}, wait.Patience, 50*time.Millisecond, "%s: %s", election, what)
		return v
	}
	stands := func(n int) func(v inspect.View) bool {
		return func(v inspect.View) bool { return len(v.Candidates) == n && v.Leader != nil }
	}
	var err error
	wait.For(t, "the new server grants a session", func() bool {
		_, err = in.Leader(ctx, path)
		return !errors.Is(err, backend.ErrUnavailable)
	})
	require.ErrorIs(t, err, elector.ErrNoElection)
	l := watch(t, in, path, inspect.WatchOptions{Candidates: true, Every: 100 * time.Millisecond})

	candidates := open()
	one := run(t, candidates, fair.Strategy{}, path, "7")
	eventually(path, "one stands", stands(1))
	two := run(t, candidates, fair.Strategy{}, path, "8")
	eventually(path, "two stand", stands(2))
	three := run(t, candidates, fair.Strategy{}, path, "9")
	v := eventually(path, "three stand", stands(3))
	assert.Equal(t, "fair", v.Strategy)
	assert.Equal(t, []string{"7", "8", "9"}, ids(v))
	assert.Equal(t, "at 7", string(v.Leader.Value))
	assert.Equal(t, v.Leader.Session, v.Candidates[0].Session)

	run(t, candidates, unfair.Strategy{}, "/jobs/reindex/unfair", "7")
	run(t, candidates, kafka.Strategy{}, "/kafka", "7")
	ends := run(t, candidates, ranked.Strategy{}, "/jobs/ranked", "7")
	for _, election := range []string{"/jobs/reindex/unfair", "/kafka", "/jobs/ranked"} {
		eventually(election, "one stands", stands(1))
	}
	list := must.Get(in.List(ctx, "/", inspect.ListOptions{}))(t)
	assert.Equal(t, []string{"/jobs/ranked ranked 1 7", "/jobs/reindex fair 3 7", "/jobs/reindex/unfair unfair 1 7", "/kafka kafka 1 7"}, summaries(list))
	assert.Empty(t, list.Missed)
	list = must.Get(in.List(ctx, "/jobs/reindex", inspect.ListOptions{}))(t)
	assert.Equal(t, []string{"/jobs/reindex fair 3 7", "/jobs/reindex/unfair unfair 1 7"}, summaries(list))

	assert.Equal(t, "7", must.Get(in.Transfer(ctx, path, "9", elector.Request{By: "anna", Why: "deploy"}))(t).ID)
	eventually(path, "9 leads", func(v inspect.View) bool { return v.Leader != nil && v.Leader.ID == "9" })
	require.Eventually(t, func() bool {
		last := l.last()
		return last.Leader != nil && last.Leader.ID == "9" && last.Trouble == nil
	}, wait.Patience, 50*time.Millisecond, "the watch has heard of it")

	d := inspect.Designation{ID: "8", By: "anna"}
	require.NoError(t, in.Designate(ctx, "/jobs/ranked", d))
	assert.Equal(t, &d, must.Get(in.Leader(ctx, "/jobs/ranked"))(t).Designated)
	require.NoError(t, in.Undesignate(ctx, "/jobs/ranked"))

	require.ErrorIs(t, must.Err(in.Remove(ctx, "/jobs/ranked", inspect.RemoveOptions{})), elector.ErrInUse)
	ends()
	gone := must.Get(in.Remove(ctx, "/jobs/ranked", inspect.RemoveOptions{}))(t)
	assert.Empty(t, gone.Kept)
	require.ErrorIs(t, must.Err(in.Leader(ctx, "/jobs/ranked")), elector.ErrNoElection)

	// What is left by hand while nobody stands can be evicted.
	one()
	two()
	three()
	left := must.Get(open().Open(ctx, backend.OpenOptions{}))(t)
	defer func() { assert.NoError(t, left.Close(ctx)) }()
	var dir string
	keys, _, err := left.Children(ctx, path, 10)
	require.NoError(t, err)
	for _, key := range keys {
		if key != path+"/unfair" {
			dir = key
		}
	}
	require.NotEmpty(t, dir)
	must.Get(left.Commit(ctx, nil, backend.Enqueue(dir, nil), backend.CompareAndSet(dir+"/seat", nil, 0)))(t)
	require.ErrorIs(t, must.Err(in.Remove(ctx, path, inspect.RemoveOptions{})), elector.ErrInUse)
	gone = must.Get(in.Remove(ctx, path, inspect.RemoveOptions{Evict: true}))(t)
	assert.Len(t, gone.Entries, 2)
	assert.Equal(t, dir, gone.Directory)
	assert.Contains(t, gone.Kept, "other keys are below")
}
