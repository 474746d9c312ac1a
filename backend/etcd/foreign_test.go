package etcd_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/wait"
)

// lookalikes are names that look like those of this package's entries, and are none, by what is wrong.
// lease is another session's, and rev a future revision.
func lookalikes(lease string, rev uint64) map[string]string {
	const nonce, ticket = "0123456789abcdef", "7ffffffffffffffe"
	return map[string]string{
		"no parts":              "2-",
		"no parts, ordered":     "1-",
		"no nonce":              "2-" + lease,
		"no lease":              "2-0-" + nonce,
		"another lease":         "2-" + lease + "-" + nonce,
		"another lease, first":  "1-" + ticket + "-" + lease + "-" + nonce,
		"bad lease":             "2-xyz-" + nonce,
		"bad lease, ordered":    "1-" + ticket + "-xyz-" + nonce,
		"upper case":            "2-ABCDEF-" + nonce,
		"negative lease":        "2--1-" + nonce,
		"huge lease":            "2-ffffffffffffffffffff-" + nonce,
		"bad nonce":             "2-" + lease + "-x",
		"bad ticket":            "1-zzzzzzzzzzzzzzzz-" + lease + "-" + nonce,
		"short ticket":          "1-1-" + lease + "-" + nonce,
		"ticket 0":              "1-7fffffffffffffff-" + lease + "-" + nonce,
		"negative ticket":       "1--000000000000001-" + lease + "-" + nonce,
		"greatest ticket":       "1-0000000000000000-" + lease + "-" + nonce,
		"huge ticket":           "1-ffffffffffffffff-" + lease + "-" + nonce,
		"ticket of the future":  fmt.Sprintf("1-%016x-%s-%s", math.MaxInt64-rev, lease, nonce),
		"another kind":          "3-" + lease + "-" + nonce,
		"etcd's own election":   lease,
		"not text":              "1-\xff\xfe\x00",
		"an entry's child":      "2-" + lease + "-" + nonce + "/x",
		"a name with much more": "2-" + lease + "-" + strings.Repeat("f", 300),
	}
}

// Foreign keys in an election's directory, persistent or with another lease, disturb neither the list
// nor the order.
func TestForeignKeysInADirectory(t *testing.T) {
	f, other := setUpTwo(t, 30*time.Second)
	put := f.puts()
	first := f.Enqueue(f.S)
	for _, name := range []string{"", "/x", "-x", "0"} { // most of these aren't in the directory
		put(f.Dir + name + "/2-1-0123456789abcdef")
	}
	for _, option := range [][]clientv3.OpOption{nil, {f.lease()}} {
		for _, name := range lookalikes(other.S.ID(), first.Rev+1e6) {
			put(f.Dir+"/"+name, option...)
		}
		second := f.Enqueue(f.S)
		third := f.Enqueue(other.S)
		for _, s := range []*backend.Session{f.S, other.S} {
			f.Lists(s, first, second, third)
			f.Follows(s, third, second)
			f.Follows(s, first, backend.Entry{})
		}
		// None of them wakes a wait.
		waiting := f.armed(second, third)
		for _, name := range lookalikes(other.S.ID(), first.Rev+1e6) {
			put(f.Dir+"/"+name, option...)
		}
		f.Discard(f.S, second)
		f.Told(waiting, backend.Entry{}, third)
		f.Discard(other.S, third)
	}
}

// Keys with a zero byte, as fences have, are no children, however many there are.
func TestDeleteAboveManyFences(t *testing.T) {
	f := setUp(t, 20*time.Second)
	put := f.puts()
	fences := func(from, to int) {
		for i := from; i < to; i++ {
			put(fmt.Sprintf("%s/x\x00%d", f.Dir, i))
		}
	}
	dir := f.Get(f.S, f.Dir)
	fences(0, 100)
	f.Commit(f.S, backend.Delete(dir))
	dir = f.put(f.S, f.Dir, "")
	fences(100, 200)
	f.Refused(f.S, backend.Delete(dir), backend.ErrTooLarge)
}

// A foreign key whose name has its own revision as the ticket is no entry, nor can a condition on an
// entry hold for it; the call returns that, and does not try for ever.
func TestGuardOnALookalike(t *testing.T) {
	f := setUp(t, 20*time.Second)
	operator := f.operator()
	var e backend.Entry
	wait.For(t, "a key with its own revision", func() bool { // sessions of other tests may be ending
		now := must.Get(operator.Get(f.Ctx, f.Dir))(t)
		rev := now.Header.Revision + 1
		key := fmt.Sprintf("%s/1-%016x-%s-0123456789abcdef", f.Dir, math.MaxInt64-rev, f.S.ID())
		put := must.Get(operator.Put(f.Ctx, key, "foreign"))(t)
		e = backend.Entry{Key: key, Rev: uint64(rev), Version: 1}
		return put.Header.Revision == rev
	})
	f.Gone(f.S, e.Key)
	for _, op := range []backend.Op{backend.Update(e, nil), backend.Delete(e)} {
		f.Refused(f.S, op, backend.ErrNoEntry)
	}
	_, err := f.S.Commit(f.Ctx, []backend.Condition{backend.IfExists(e)}, backend.CompareAndSet(f.Dir+"/x", nil, 0))
	require.ErrorIs(t, err, backend.ErrCondition)
}

// A key with the name of an enqueued entry is one, or nothing: nothing else can be made with such a
// name.
func TestNamesOfEntriesAreTheirs(t *testing.T) {
	f := setUp(t, 20*time.Second)
	key := f.Dir + "/2-1-0123456789abcdef"
	for _, op := range []backend.Op{backend.CompareAndSet(key, nil, 0), backend.CreateEphemeral(key, nil)} {
		_, err := f.S.Commit(f.Ctx, nil, op)
		require.ErrorIs(t, err, backend.ErrBadKey)
		require.ErrorContains(t, err, "enqueued")
	}
}

// An enqueued entry that somebody has overwritten without its lease, as `etcdctl put` does, is gone for
// waits, lists, reads and conditions. The first of the queue and the second have keys of different
// forms.
func TestEnqueuedEntryIsOverwritten(t *testing.T) {
	t.Parallel()
	f, other := setUpTwo(t, time.Minute)
	for how, option := range map[string][]clientv3.OpOption{"no lease": nil, "another lease": {f.lease()}} {
		for i, which := range []string{"the first", "the second"} {
			t.Run(which+", "+how, func(t *testing.T) {
				f.T = t
				queue := []backend.Entry{f.Enqueue(f.S), f.Enqueue(f.S), f.Enqueue(other.S)}
				gone := queue[i]
				waiting := f.armed(queue[0], queue[1]) // by the watch that was made ahead
				listing := f.AwaitsList(other.S, f.List(f.S))

				f.puts()(gone.Key, option...)
				seen := wait.Value(f.T, waiting)
				assert.False(t, seen[i].Exists(), "%+v", seen[i])
				assert.Equal(t, []string{queue[1-i].Key, queue[2].Key}, wait.Value(f.T, listing).Keys)
				f.Gone(other.S, gone.Key)
				for _, guard := range []backend.Condition{backend.IfExists(gone), backend.IfUnchanged(gone)} {
					_, err := f.S.Commit(f.Ctx, []backend.Condition{guard}, backend.CompareAndSet(newRoot(), nil, 0))
					assert.ErrorIs(t, err, backend.ErrCondition)
				}
				f.Refused(f.S, backend.Update(gone, nil), backend.ErrNoEntry)
				f.Refused(f.S, backend.Delete(gone), backend.ErrNoEntry)
				_, err := f.S.Predecessor(f.Ctx, gone)
				assert.ErrorIs(t, err, backend.ErrNoEntry)
				f.Follows(other.S, queue[2], queue[1-i])

				f.Discard(f.S, gone, queue[0], queue[1])
				f.Discard(other.S, queue[2])
			})
		}
	}
}
