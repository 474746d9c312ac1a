package consul_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/internal/consultest"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/wait"
)

// many is how many pairs of entries are awaited. A few of them are more than are awaited by queries of their own.
const (
	many = 100
	few  = 30
)

// waiting is what awaits one entry, or two.
type waiting = <-chan wait.Result[[]backend.Entry]

// makeMany makes directories with an entry of o and one of f, behind it, each.
func makeMany(f, o *fixture, n int) (before, mine []backend.Entry) {
	f.T.Helper()
	root := newRoot()
	for i := range n {
		dir := fmt.Sprintf("%s/%d", root, i)
		made := f.Commit(o.S, backend.CompareAndSet(dir, nil, 0), backend.Enqueue(dir, []byte("v")))
		before = append(before, made[1])
		mine = append(mine, f.Commit(f.S, backend.Enqueue(dir, []byte("v")))[0])
	}
	return before, mine
}

// awaitMany waits for all of them, all but a few by a tree that has shown them.
func awaitMany(f *fixture, before, mine []backend.Entry) (all []waiting, asked *atomic.Int64) {
	f.T.Helper()
	asked, _ = f.count(both(blocking, not(asks("recurse"))))
	trees, remove := f.count(both(blocking, asks("recurse")))
	defer remove()
	return awaitEach(f, before, mine, func() { wait.For(f.T, "a tree", func() bool { return trees.Load() > 0 }) }), asked
}

// awaitEach awaits them all, and calls atFew when a tree may take the place of the first ones' queries.
func awaitEach(f *fixture, before, mine []backend.Entry, atFew func()) (all []waiting) {
	for i := range before {
		if i == few {
			atFew()
		}
		all = append(all, f.Awaits(f.S, mine[i], before[i]))
	}
	return all
}

// A session that awaits many entries awaits them by one query, which shows all that has changed at once, in order,
// and needs no read.
func TestTree(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	o := f.another()
	before, mine := makeMany(f, o, many)
	all, asked := awaitMany(f, before, mine)
	const value, own, dir = many - 1, many - 2, many - 3
	changed := f.Commit(o.S, backend.Update(before[value], []byte("w")))[0]
	f.Told(all[value], mine[value], changed)
	all[value] = f.Awaits(f.S, mine[value], changed)
	must.Get(f.operator().KV().Delete(mine[own].Key[1:], nil))(t)
	f.Told(all[own], nothing, before[own])
	must.Get(f.operator().KV().DeleteTree(f.dirOf(mine[dir]), nil))(t)
	f.Told(all[dir], nothing, nothing)
	reads, _ := f.count(both(not(blocking), not(looks)))
	require.NoError(t, o.S.Close(o.Ctx))
	for i := range many {
		if i != own && i != dir {
			f.Told(all[i], mine[i], nothing)
		}
	}
	assert.LessOrEqual(t, reads.Load(), int64(few))
	assert.Less(t, asked.Load(), int64(3*few))
}

// dirOf returns Consul's name of an entry's directory, with a slash.
func (f *fixture) dirOf(e backend.Entry) string { return backend.Parent(e.Key)[1:] + "/" }

// An entry that changes between a read and the wait for it is noticed by a tree that has shown the change already,
// and by one that has not.
func TestTreeMissesNothing(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	o := f.another()
	before, mine := makeMany(f, o, many)
	last := many - 1
	awaitMany(f, before[:last], mine[:last])
	for i := range 20 {
		now := f.Commit(o.S, backend.Update(before[last], []byte{byte(i)}))[0]
		if i%2 == 0 { // or it is noticed later
			time.Sleep(20 * time.Millisecond)
		}
		f.Told(f.Awaits(f.S, mine[last], before[last]), mine[last], now)
		before[last] = f.Get(f.S, now.Key)
	}
	waiting := f.Awaits(f.S, mine[last], before[last])
	require.NoError(t, o.S.Discard(o.Ctx, before[last]))
	f.Told(waiting, mine[last], nothing)
}

// What a tree has not shown yet is not forgotten: a wait never returns what is older than what the session has
// read.
func TestTreeIsBehind(t *testing.T) {
	t.Parallel()
	f := setUpOn(t, consultest.Options{Config: consul.Config{SessionTimeout: time.Hour}}, sharedServer(t))
	o := f.another()
	before, mine := makeMany(f, o, many)
	all, _ := awaitMany(f, before, mine)
	const last = many - 1
	pass := f.HoldWakeups()
	changed := f.Commit(o.S, backend.Update(before[last], []byte("w")))[0]
	must.Get(f.operator().KV().Delete(mine[last].Key[1:], nil))(t)
	f.Gone(f.S, mine[last].Key)
	pass()
	f.Told(all[last], nothing, changed)
	for _, known := range [][]backend.Entry{{mine[last], before[last]}, {mine[last], changed}} {
		f.Told(f.Awaits(f.S, known...), nothing, changed)
	}
}

// A tree that hangs is noticed by the next look.
func TestTreeHangs(t *testing.T) {
	t.Parallel()
	f := setUpOn(t, looking, sharedServer(t))
	o := f.another()
	before, mine := makeMany(f, o, many)
	remove := f.handle(both(blocking, asks("recurse")), hang)
	all, _ := awaitMany(f, before, mine)
	require.NoError(t, o.S.Discard(o.Ctx, before[many-1]))
	f.toldByALook(all[many-1], mine[many-1], nothing)
	remove()
	f.AwaitState(f.S, backend.Live)
	require.NoError(t, o.S.Discard(o.Ctx, before[many-2]))
	f.Told(all[many-2], mine[many-2], nothing)
}

// Where a tree would bring too much, or may not be read, each entry has a query of its own.
func TestNoTree(t *testing.T) {
	t.Parallel()
	recursive := both(under("kv"), asks("recurse"))
	for _, row := range []struct {
		why string
		do  func(f *fixture, root string)
	}{
		{"denied", func(f *fixture, _ string) { f.handle(recursive, answer(http.StatusForbidden, "Permission denied")) }},
		{"filtered", func(f *fixture, _ string) {
			f.handle(recursive, func(r *consultest.Request) (*http.Response, error) {
				response, err := r.Send()
				if err == nil {
					response.Header.Set("X-Consul-Results-Filtered-By-ACLs", "true")
				}
				return response, err
			})
		}},
		{"large values", func(f *fixture, root string) {
			for i := range 20 {
				must.Get(f.operator().KV().Put(&api.KVPair{Key: fmt.Sprintf("%s/large/%d", root, i), Value: make([]byte, 400<<10)}, nil))(f.T)
			}
		}},
	} {
		t.Run(row.why, func(t *testing.T) {
			t.Parallel()
			f := setUp(t)
			o := f.another()
			before, mine := makeMany(f, o, many)
			row.do(f, backend.Parent(f.dirOf(before[0])[:len(f.dirOf(before[0]))-1]))
			asked, _ := f.count(both(blocking, not(asks("recurse"))))
			var all []waiting
			for i := range before {
				all = append(all, f.Awaits(f.S, mine[i], before[i]))
			}
			wait.For(t, "queries", func() bool { return asked.Load() >= 2*many })
			for i := range 3 {
				require.NoError(t, o.S.Discard(o.Ctx, before[i]))
				f.Told(all[i], mine[i], nothing)
			}
		})
	}
}

// Elections that begin at once take few connections, and few slots.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	var pending, most atomic.Int64
	f.handle(txns, func(r *consultest.Request) (*http.Response, error) {
		now := pending.Add(1)
		defer pending.Add(-1)
		for last := most.Load(); now > last && !most.CompareAndSwap(last, now); last = most.Load() {
		}
		time.Sleep(10 * time.Millisecond) // until others are there
		return r.Send()
	})
	var all []<-chan wait.Result[[]backend.Entry]
	for range 200 {
		all = append(all, f.Commits(f.S, backend.Enqueue(f.Dir, nil)))
	}
	for _, c := range all {
		wait.Value(t, c)
	}
	slots := must.First(f.operator().KV().Keys(".elector/"+f.S.ID()+"/", "", nil))(t)
	assert.LessOrEqual(t, len(slots), 32)
	assert.LessOrEqual(t, most.Load(), int64(33), "with a look")
}
