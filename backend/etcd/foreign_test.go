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

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy/catalog"
)

// lookalikes are names that look like those of entries of this package, and are
// none, by what is wrong. lease is that of another session, and rev a revision to
// come.
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

// Foreign keys in an election's directory disturb neither the list nor who stands
// before whom, be they persistent or of another lease.
func TestForeignKeysInADirectory(t *testing.T) {
	f := setUp(t, 30*time.Second)
	other := f.another(30 * time.Second)
	operator := f.operator()
	lease, err := operator.Grant(f.ctx, 60)
	require.NoError(t, err)
	first := f.enqueue(f.s)
	puts := map[string][]clientv3.OpOption{"persistent": nil, "with another lease": {clientv3.WithLease(lease.ID)}}
	for how, option := range puts {
		for what, name := range lookalikes(other.s.ID(), first.Rev+1e6) {
			_, err := operator.Put(f.ctx, f.dir+"/"+name, "foreign, "+what+", "+how, option...)
			require.NoError(t, err)
		}
		second := f.enqueue(f.s)
		third := f.enqueue(other.s)
		for _, s := range []*backend.Session{f.s, other.s} {
			l, err := s.List(f.ctx, f.dir)
			require.NoError(t, err)
			assert.Equal(t, []string{first.Key, second.Key, third.Key}, l.Keys, how)
			before, err := s.Predecessor(f.ctx, third)
			require.NoError(t, err)
			assert.True(t, before.Same(second), "%s: %+v", how, before)
			before, err = s.Predecessor(f.ctx, first)
			require.NoError(t, err)
			assert.False(t, before.Exists(), "%s: %+v", how, before)
		}
		// None of them wakes who waits.
		waiting := f.armed(second, third)
		for _, name := range lookalikes(other.s.ID(), first.Rev+1e6) {
			_, err := operator.Put(f.ctx, f.dir+"/"+name, "changed", option...)
			require.NoError(t, err)
		}
		require.NoError(t, f.s.Discard(f.ctx, second))
		got, err := receive(f, waiting)
		require.NoError(t, err)
		assert.False(t, got[0].Exists())
		assert.True(t, got[1].Same(third))
		require.NoError(t, other.s.Discard(f.ctx, third))
	}
}

// Elections go on among foreign keys.
func TestElectionAmongForeignKeys(t *testing.T) {
	f := setUp(t, 30*time.Second)
	operator := f.operator()
	for _, item := range catalog.All() {
		strategy := item.Strategy
		t.Run(strategy.Name(), func(t *testing.T) {
			f.t = t
			election := newRoot()
			for _, name := range lookalikes(f.s.ID(), 1<<40) {
				_, err := operator.Put(f.ctx, election+"/"+name, "foreign")
				require.NoError(t, err)
			}
			for _, name := range []string{"", "/x", "-x", "0"} { // what isn't in the directory
				_, err := operator.Put(f.ctx, election+name+"/2-1-0123456789abcdef", "foreign")
				require.NoError(t, err)
			}
			a := newElector(f, f.Backend, strategy, election, "1")
			b := newElector(f, f.another(30*time.Second).Backend, strategy, election, "2")
			for range 3 {
				term, err := a.Campaign(f.ctx)
				require.NoError(t, err)
				waiting := later(func() (*elector.Term, error) { return b.Campaign(f.ctx) })
				require.NoError(t, term.Resign(f.ctx))
				term, err = receive(f, waiting)
				require.NoError(t, err)
				require.NoError(t, term.Resign(f.ctx))
			}
		})
	}
}

// Elections whose names begin alike, side by side.
func TestNamesSideBySide(t *testing.T) {
	f := setUp(t, 30*time.Second)
	o := f.another(30 * time.Second)
	for _, item := range catalog.All() {
		strategy := item.Strategy
		t.Run(strategy.Name(), func(t *testing.T) {
			f.t = t
			top := newRoot()
			names := []string{"/x", "/x/y", "/x/y/z", "/xy", "/x-y", "/x0", "/x.y", "/x!"}
			leaders, terms := make(map[string]elector.Elector), make(map[string]*elector.Term)
			waiting := make(map[string]<-chan result[*elector.Term])
			for _, name := range names {
				leaders[name] = newElector(f, f.Backend, strategy, top+name, "1")
				term, err := leaders[name].Campaign(f.ctx)
				require.NoError(t, err, "the first in %s", name)
				terms[name] = term
			}
			for _, name := range names {
				b := newElector(f, o.Backend, strategy, top+name, "2")
				waiting[name] = later(func() (*elector.Term, error) { return b.Campaign(f.ctx) })
			}
			for i, name := range names {
				wait.For(t, "all stand", func() bool {
					return strategy.Name() != "fair" || len(candidates(f, leaders[name])) == 2
				})
				require.NoError(t, terms[name].Resign(f.ctx))
				term, err := receive(f, waiting[name])
				require.NoError(t, err)
				terms[name] = term
				for _, other := range names {
					require.True(t, terms[other].Valid(), "%s after a handover in %s", other, name)
				}
				for _, later := range names[i+1:] {
					still(f, waiting[later])
					l, err := leaders[later].Leader(f.ctx)
					require.NoError(t, err)
					assert.Equal(t, terms[later].Token(), l.Token)
				}
			}
		})
	}
}

// Keys with a zero byte, as fences have, are no children, however many there are.
func TestDeleteAboveManyFences(t *testing.T) {
	f := setUp(t, 20*time.Second)
	operator := f.operator()
	fences := func(from, to int) {
		for i := from; i < to; i++ {
			_, err := operator.Put(f.ctx, fmt.Sprintf("%s/x\x00%d", f.dir, i), "")
			require.NoError(t, err)
		}
	}
	dir, err := f.s.Get(f.ctx, f.dir)
	require.NoError(t, err)
	fences(0, 100)
	f.commit(f.s, backend.Delete(dir))
	dir = f.commit(f.s, backend.CompareAndSet(f.dir, nil, 0))[0]
	fences(100, 200)
	deleted := later(func() ([]backend.Entry, error) { return f.s.Commit(f.ctx, nil, backend.Delete(dir)) })
	_, err = receive(f, deleted)
	require.ErrorIs(t, err, backend.ErrTooLarge)
}

// A foreign key whose name bears its own revision as the ticket is no entry, nor what a condition on
// one would need. That is said, and not tried for ever.
func TestGuardOnALookalike(t *testing.T) {
	f := setUp(t, 20*time.Second)
	operator := f.operator()
	var e backend.Entry
	wait.For(t, "a key with its own revision", func() bool { // sessions of other tests may be ending
		now, err := operator.Get(f.ctx, f.dir)
		require.NoError(t, err)
		rev := now.Header.Revision + 1
		key := fmt.Sprintf("%s/1-%016x-%s-0123456789abcdef", f.dir, math.MaxInt64-rev, f.s.ID())
		put, err := operator.Put(f.ctx, key, "foreign")
		require.NoError(t, err)
		e = backend.Entry{Key: key, Rev: uint64(rev), Version: 1}
		return put.Header.Revision == rev
	})
	_, err := f.s.Get(f.ctx, e.Key)
	require.ErrorIs(t, err, backend.ErrNoEntry)
	for _, op := range []backend.Op{backend.Update(e, nil), backend.Delete(e)} {
		done := later(func() ([]backend.Entry, error) { return f.s.Commit(f.ctx, nil, op) })
		_, err := receive(f, done)
		require.ErrorIs(t, err, backend.ErrNoEntry)
	}
	guarded := later(func() ([]backend.Entry, error) {
		return f.s.Commit(f.ctx, []backend.Condition{backend.IfExists(e)}, backend.CompareAndSet(f.dir+"/x", nil, 0))
	})
	_, err = receive(f, guarded)
	require.ErrorIs(t, err, backend.ErrCondition)
}
