package elector_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/election"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/strategy"
	"github.com/elector-go/elector/strategy/fair"
	"github.com/elector-go/elector/strategy/kafka"
)

// inTerm runs a test as the leader of an election, on fake time.
func inTerm(t *testing.T, cfg elector.Config, o memory.Options, test func(t *testing.T, c *memory.Client, svc *memory.Service, term *elector.Term)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		svc := memory.New(o)
		client := svc.Client("leader")
		cfg.Backend = client
		e := must.Get(elector.New(cfg))(t)
		defer func() { require.NoError(t, e.Close(context.Background())) }()
		term := leads(t, e)
		test(t, client, svc, term)
		client.Resume()
	})
}

var fairConfig = elector.Config{Strategy: fair.Strategy{}, Election: "/jobs/reindex", ID: "host-1"}

// The order in which the ops of a commit are given does not matter.
func TestCommitInAnyOrder(t *testing.T) {
	inTerm(t, fairConfig, memory.Options{}, func(t *testing.T, _ *memory.Client, _ *memory.Service, term *elector.Term) {
		keys := []string{"/data/a/b", "/data/a", "/data/a/c", "/data"}
		var puts, deletes []elector.Write
		for i, key := range keys {
			puts = append(puts, elector.Put(key, []byte(strconv.Itoa(i))))
			deletes = append(deletes, elector.Delete(key))
		}
		made := must.Get(term.Commit(t.Context(), puts...))(t)
		for i, e := range made {
			assert.Equal(t, keys[i], e.Key)
			assert.Equal(t, strconv.Itoa(i), string(e.Value))
			assert.EqualValues(t, 1, e.Version, "written once")
		}
		made = must.Get(term.Commit(t.Context(), append([]elector.Write{elector.Create("/more", nil)}, deletes...)...))(t)
		assert.Equal(t, "/more", made[0].Key)
		for i, e := range made[1:] {
			assert.Equal(t, backend.Entry{Key: keys[i]}, e)
		}
	})
}

// A commit that cannot succeed says so, even while others constantly write to another of its keys.
func TestCommitIsRefusedBesideAHotKey(t *testing.T) {
	var svc *memory.Service // set before the first commit on /hot
	o := memory.Options{Intercept: func(s memory.Step) {
		if s.Kind == memory.StepCommit && s.Key == "/hot" {
			_ = svc.Put("/hot", []byte("theirs"))
		}
	}}
	inTerm(t, fairConfig, o, func(t *testing.T, _ *memory.Client, s *memory.Service, term *elector.Term) {
		svc = s
		must.Get(term.Commit(t.Context(), elector.Create("/x", nil)))(t)
		_, err := term.Commit(t.Context(), elector.Put("/hot", []byte("mine")), elector.Create("/x", nil))
		require.ErrorIs(t, err, elector.ErrConflict)
		assert.ErrorContains(t, err, "/x")
		assert.True(t, term.Valid())
	})
}

// The error of a refused write says what is there, and never names a version that nobody has.
func TestCommitSaysWhatIsThere(t *testing.T) {
	inTerm(t, fairConfig, memory.Options{}, func(t *testing.T, _ *memory.Client, svc *memory.Service, term *elector.Term) {
		require.NoError(t, svc.Put("/there", nil))
		for _, c := range []struct {
			op   elector.Write
			want string
		}{
			{elector.Create("/there", nil), "/there exists already, at version 1:"},
			{elector.CompareAndSet("/missing", nil, 3), "/missing does not exist, and is to be at version 3:"},
			{elector.CompareAndSet("/there", nil, 3), "/there is at version 1, not 3:"},
		} {
			_, err := term.Commit(t.Context(), c.op)
			require.ErrorIs(t, err, elector.ErrConflict)
			assert.ErrorContains(t, err, c.want)
		}
		_, err := term.Commit(t.Context(), elector.Delete("/missing"))
		require.ErrorIs(t, err, backend.ErrNoEntry)
		assert.ErrorContains(t, err, "/missing: no such entry")
	})
}

// After a term ends because a condition failed, Resign reports whether its entry is gone.
func TestResignAfterARefusedWrite(t *testing.T) {
	cfg := elector.Config{Strategy: kafka.Strategy{}, Election: "/k", ID: "1"}
	inTerm(t, cfg, memory.Options{}, func(t *testing.T, c *memory.Client, svc *memory.Service, term *elector.Term) {
		require.NoError(t, svc.Put("/k/controller_epoch", []byte("9")))
		c.CutReply(memory.Kind(backend.OpDelete))
		_, err := term.Commit(t.Context(), elector.Put("/x", nil))
		require.ErrorIs(t, err, elector.ErrDeposed)
		synctest.Wait()
		require.True(t, svc.Entry("/k/controller").Exists(), "it could not be removed")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, term.Resign(ctx), "the entry is still there")
		c.Resume()
		require.NoError(t, term.Resign(t.Context()))
		require.False(t, svc.Entry("/k/controller").Exists())
	})
}

// One broker is one candidate, even if its candidates have different IDs.
func TestDuplicateBrokers(t *testing.T) {
	cfg := elector.Config{Backend: memory.New(memory.Options{}), Strategy: kafka.ForBroker(3), Election: "/k", ID: "host-1"}
	first := must.Get(elector.New(cfg))(t)
	cfg.ID = "host-2"
	_, err := elector.New(cfg)
	require.ErrorIs(t, err, elector.ErrConfig)
	require.NoError(t, first.Close(t.Context()))
	second := must.Get(elector.New(cfg))(t)
	require.NoError(t, second.Close(t.Context()))
}

// A renewing strategy has a new payload for the leader's entry at each word.
type renewing struct {
	fair.Strategy
	word chan struct{}
}

func (r renewing) Campaign(ctx context.Context, c *strategy.Candidacy) (strategy.Claim, error) {
	claim, err := r.Strategy.Campaign(ctx, c)
	claim.Renew = func(ctx context.Context) error {
		select {
		case <-r.word:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return claim, err
}

// A value whose publication is in doubt may be there, and is not overwritten with the one before.
func TestProclaimInDoubtIsTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var doubt atomic.Bool
		doubtful := backend.Intercept(memory.New(memory.Options{}), func(within context.Context, c *backend.Call, next func(context.Context) error) error {
			err := next(within)
			if c.Kind == backend.CallCommit && doubt.CompareAndSwap(true, false) {
				cancel() // so that nobody looks
				return backend.ErrIndeterminate
			}
			return err
		})
		strategy := renewing{word: make(chan struct{})}
		e := standing(t, doubtful, "a", func(c *elector.Config) { c.Strategy = strategy })
		term := leads(t, e)
		synctest.Wait()
		doubt.Store(true)
		require.ErrorIs(t, term.Proclaim(ctx, []byte("second")), elector.ErrIndeterminate)
		strategy.word <- struct{}{}
		synctest.Wait()
		assert.Equal(t, "second", string(must.Get(e.Leader(t.Context()))(t).Value))
	})
}

// A value is copied when it is given, so the caller may change its bytes.
func TestValuesAreTheElectorsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		strategy, value := renewing{word: make(chan struct{})}, []byte("first")
		e := standing(t, memory.New(memory.Options{}), "a", func(c *elector.Config) { c.Strategy, c.Value = strategy, value })
		copy(value, "other")
		term := leads(t, e)
		synctest.Wait()
		assert.Equal(t, "first", string(must.Get(e.Leader(t.Context()))(t).Value))
		value = []byte("second")
		require.NoError(t, term.Proclaim(t.Context(), value))
		copy(value, "others")
		strategy.word <- struct{}{}
		synctest.Wait()
		assert.Equal(t, "second", string(must.Get(e.Leader(t.Context()))(t).Value))
	})
}

// A write that fails is tried again with pauses.
func TestTriesASecond(t *testing.T) {
	for what, refusal := range map[string]error{"renewal": backend.ErrUnavailable, "Ask": backend.ErrCondition} {
		synctest.Test(t, func(t *testing.T) {
			var refusing atomic.Bool
			var commits atomic.Int64
			b := backend.Intercept(memory.New(memory.Options{}), func(ctx context.Context, c *backend.Call, next func(context.Context) error) error {
				if c.Kind == backend.CallCommit && refusing.Load() {
					commits.Add(1)
					time.Sleep(time.Millisecond)
					return refusal
				}
				return next(ctx)
			})
			strategy := renewing{word: make(chan struct{})}
			leads(t, standing(t, b, "a", func(c *elector.Config) { c.Strategy = strategy }))
			synctest.Wait()
			refusing.Store(true)
			const seconds = 10
			if what == "renewal" {
				strategy.word <- struct{}{}
				time.Sleep(seconds * time.Second)
			} else {
				ctx, cancel := context.WithTimeout(t.Context(), seconds*time.Second)
				defer cancel()
				_, err := election.Ask(ctx, b, strategy, "/e", election.Request{})
				assert.ErrorIs(t, err, context.DeadlineExceeded)
			}
			refusing.Store(false)
			assert.True(t, commits.Load() > 1 && commits.Load() <= 100*seconds, "%s: %d commits in %d s", what, commits.Load(), seconds)
		})
	}
}
