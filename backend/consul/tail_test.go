package consul_test

import (
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/must"
)

// A new candidate finds the one before it without a list, or with one if the tail does not show it.
func TestTail(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	tail := ".elector/tails" + f.Dir
	lists, _ := f.count(asks("recurse"))
	kv := f.operator().KV()
	read := func() *api.KVPair {
		return must.First(kv.Get(tail, &api.QueryOptions{RequireConsistent: true}))(t)
	}
	first := f.Enqueue(f.another().S)
	second := f.Enqueue(f.S)
	f.Follows(f.S, second, first)
	require.Zero(t, lists.Load(), "the tail tells")
	f.Follows(f.S, second, first) // it is remembered
	require.Zero(t, lists.Load())

	for _, c := range []struct {
		name   string
		before func()
	}{
		{"deleted", func() {
			must.Get(kv.Delete(tail, nil))(t)
		}},
		{"written over", func() {
			must.Get(kv.Put(&api.KVPair{Key: tail, Value: []byte("e-1")}, nil))(t)
		}},
		{"of long ago", func() { // it names one that exists, and is not the last
			_, err := kv.Put(&api.KVPair{Key: tail, Value: []byte(first.Key[strings.LastIndexByte(first.Key, '/')+1:])}, nil)
			require.NoError(t, err)
		}},
		{"of one that is gone", func() {
			o := f.another()
			require.NoError(t, o.S.Discard(f.Ctx, o.Enqueue(o.S)))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := f.another() // it has not listed the directory yet
			lists, _ := f.count(asks("recurse"))
			last := f.Enqueue(f.S)
			c.before()
			me := f.Enqueue(f.S)
			f.Follows(f.S, me, last)
			require.EqualValues(t, 1, lists.Load())
		})
	}

	t.Run("goes with the directory", func(t *testing.T) {
		f := f.another()
		f.Dir = newRoot()
		dir := f.Commit(f.S, backend.CompareAndSet(f.Dir, nil, 0))[0]
		me := f.Enqueue(f.S)
		tail = ".elector/tails" + f.Dir
		require.NotNil(t, read())
		f.Commit(f.S, backend.Delete(me))
		f.Commit(f.S, backend.Delete(dir))
		assert.Nil(t, read())
	})
}
