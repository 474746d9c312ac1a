package etcd_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/etcdtest"
	"github.com/elector-go/elector/internal/must"
)

// fences returns the fences below a key.
func (f *fixture) fences(below string) (found []string) {
	f.T.Helper()
	all := must.Get(f.operator().Get(f.Ctx, below+"/", clientv3.WithRange(below+"0"), clientv3.WithKeysOnly()))(f.T)
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
	other := f.Enqueue(f.another(60 * time.Second).S)
	for range 10 {
		f.LoseReply(etcdtest.MatchKind(backend.OpEnqueue))
		e := f.Enqueue(f.S)
		f.LoseReply(etcdtest.MatchKind(backend.OpUpdate))
		e = f.Commit(f.S, backend.Update(e, []byte("w")))[0]
		f.Follows(f.S, e, other)
		f.LoseReply(etcdtest.MatchKind(backend.OpCreateEphemeral))
		seat := f.seat(f.S)
		f.Discard(f.S, seat, e)
	}
	assert.Len(t, f.fences(f.Dir), 2)
}

// An operator who deletes a fence stops nothing: what was applied after that is found, though the
// session has not seen the deletion, as the history does not end there.
func TestFenceDeletedUnseen(t *testing.T) {
	f := setUp(t, 60*time.Second)
	f.LoseReply(etcdtest.MatchKind(backend.OpEnqueue))
	made := []backend.Entry{f.Enqueue(f.S)}
	for i := range 6 {
		fences := f.fences(f.Dir)
		require.Len(t, fences, 1)
		f.remove(fences[0])
		if i%2 == 0 {
			f.LoseReply(etcdtest.MatchKind(backend.OpEnqueue))
		}
		made = append(made, f.Enqueue(f.S))
		f.LoseReply(etcdtest.MatchKind(backend.OpEnqueue)) // so that there is one again
		made = append(made, f.Enqueue(f.S))
	}
	f.Lists(f.S, made...) // each was done once
}
