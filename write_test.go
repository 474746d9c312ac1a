package elector_test

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/must"
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

var fairConfig = elector.Config{Strategy: fair.New(), Election: "/jobs/reindex", ID: "host-1"}

// The order in which the ops of a commit are given says nothing.
func TestCommitInAnyOrder(t *testing.T) {
	inTerm(t, fairConfig, memory.Options{}, func(t *testing.T, _ *memory.Client, _ *memory.Service, term *elector.Term) {
		keys := []string{"/data/a/b", "/data/a", "/data/a/c", "/data"}
		var puts, deletes []elector.Op
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
		made = must.Get(term.Commit(t.Context(), append([]elector.Op{elector.Create("/more", nil)}, deletes...)...))(t)
		assert.Equal(t, "/more", made[0].Key)
		for i, e := range made[1:] {
			assert.Equal(t, backend.Entry{Key: keys[i]}, e)
		}
	})
}

// A commit that can't succeed says so, also while others write to another of its keys
// all the time.
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

// A refused write says what is there, and not by a version that nobody has.
func TestCommitSaysWhatIsThere(t *testing.T) {
	inTerm(t, fairConfig, memory.Options{}, func(t *testing.T, _ *memory.Client, svc *memory.Service, term *elector.Term) {
		require.NoError(t, svc.Put("/there", nil))
		for _, c := range []struct {
			op   elector.Op
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

// A term that ends because a guard failed leaves an entry, and Resign says whether it
// is gone.
func TestResignAfterARefusedWrite(t *testing.T) {
	cfg := elector.Config{Strategy: kafka.New(), Election: "/k", ID: "1"}
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

// One broker is one candidate, whatever its candidates call themselves.
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
