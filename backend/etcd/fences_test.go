package etcd_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/etcdtest"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy/fair"
)

// fences returns the fences below a key.
func (f *fixture) fences(below string) (found []string) {
	f.t.Helper()
	all := must.Get(f.operator().Get(f.ctx, below+"/", clientv3.WithRange(below+"0"), clientv3.WithKeysOnly()))(f.t)
	for _, kv := range all.Kvs {
		if strings.Contains(string(kv.Key), "\x00") {
			found = append(found, string(kv.Key))
		}
	}
	return found
}

// A session puts one fence for all that it enqueues in a directory, and for its writes to those
// entries, and one for each other key, however many replies are lost.
func TestFencesOfLostReplies(t *testing.T) {
	f := setUp(t, 60*time.Second)
	other := f.enqueue(f.another(60 * time.Second).s)
	for range 10 {
		f.LoseReply(etcdtest.MatchKind(backend.OpEnqueue))
		e := f.enqueue(f.s)
		f.LoseReply(etcdtest.MatchKind(backend.OpUpdate))
		e = f.commit(f.s, backend.Update(e, []byte("w")))[0]
		f.follows(f.s, e, other)
		f.LoseReply(etcdtest.MatchKind(backend.OpCreateEphemeral))
		seat := f.seat(f.s)
		f.discard(f.s, seat, e)
	}
	assert.Len(t, f.fences(f.dir), 2)
}

// Nor does the number of fences depend on how many campaigns are cancelled.
func TestFencesOfCancelledCampaigns(t *testing.T) {
	f := setUp(t, 60*time.Second)
	election := f.dir + "/e"
	must.Get(newElector(f, f.Backend, fair.Strategy{}, election, "leader").Campaign(f.ctx))(t)
	e := newElector(f, f.Backend, fair.Strategy{}, election, "waiting")
	for range 200 {
		ctx, cancel := context.WithTimeout(f.ctx, rand.N(4*time.Millisecond))
		_, err := e.Campaign(ctx)
		cancel()
		require.True(t, errors.Is(err, context.DeadlineExceeded), "%v", err)
	}
	assert.LessOrEqual(t, len(f.fences(election)), 1)
	require.NoError(t, e.Close(f.ctx))
}

// An operator who deletes a fence stops nothing: what was applied after that is found, though the
// session has not seen the deletion, as the history does not end there.
func TestFenceDeletedUnseen(t *testing.T) {
	f := setUp(t, 60*time.Second)
	f.LoseReply(etcdtest.MatchKind(backend.OpEnqueue))
	made := []backend.Entry{f.enqueue(f.s)}
	for i := range 6 {
		fences := f.fences(f.dir)
		require.Len(t, fences, 1)
		f.remove(fences[0])
		if i%2 == 0 {
			f.LoseReply(etcdtest.MatchKind(backend.OpEnqueue))
		}
		made = append(made, f.enqueue(f.s))
		f.LoseReply(etcdtest.MatchKind(backend.OpEnqueue)) // so that there is one again
		made = append(made, f.enqueue(f.s))
	}
	f.lists(f.s, made...) // each was done once
}

// Concurrent commits share the fence: when it is put for one of them the others are refused, and still
// each of them is done once.
func TestFenceOfCommitsAtOnce(t *testing.T) {
	f := setUp(t, 60*time.Second)
	var workers []<-chan wait.Result[[]backend.Entry]
	for range 8 {
		workers = append(workers, wait.Later(func() (all []backend.Entry, err error) {
			for range 5 {
				f.LoseReply(etcdtest.MatchKind(backend.OpEnqueue))
				made, err := f.s.Commit(f.ctx, nil, backend.Enqueue(f.dir, nil))
				if err != nil {
					return nil, err
				}
				all = append(all, made...)
			}
			return all, nil
		}))
	}
	var want []string
	for _, w := range workers {
		made := returned(f, w)
		for _, e := range made {
			want = append(want, e.Key)
		}
	}
	l := f.list(f.s)
	assert.ElementsMatch(t, want, l.Keys)
	assert.Len(t, f.fences(f.dir), 1)
}
