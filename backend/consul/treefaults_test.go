package consul_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/internal/consultest"
	"github.com/elector-go/elector/internal/wait"
)

// recursive matches reads of trees.
var recursive = both(under("kv"), asks("recurse"))

// looking has sessions that look every seven seconds, and that a stalled machine does not end.
var looking = consultest.Options{Config: consul.Config{SessionTimeout: 2 * ttl}}

// toldByALook is Told, and sooner than the end of a query that hangs.
func (f *fixture) toldByALook(waiting waiting, want ...backend.Entry) {
	f.T.Helper()
	select {
	case now := <-waiting:
		again := make(chan wait.Result[[]backend.Entry], 1)
		again <- now
		f.Told(again, want...)
	case <-time.After(45 * time.Second): // a query hangs for a minute, looks are seconds apart
		f.T.Fatal("no look has told it")
	}
}

// A restored service has not what was made since the backup, and a tree's index is then below that of what was
// awaited.
func TestTreeRestored(t *testing.T) {
	t.Parallel()
	f := setUpOn(t, looking, consultest.Single(t).Members[0])
	o := f.another()
	before, mine := makeMany(f, o, many)
	awaitMany(f, before, mine)
	restore := snapshot(t, f.operator())
	root := backend.Parent(backend.Parent(before[0].Key))
	for _, seen := range []bool{true, false} { // by the tree
		late := f.another()
		seat := f.Commit(late.S, backend.CreateEphemeral(root+"/seat", nil))[0]
		pass := func() {}
		if !seen {
			pass = f.HoldWakeups()
		}
		waiting := f.Awaits(f.S, f.Get(f.S, seat.Key))
		time.Sleep(100 * time.Millisecond) // until it waits
		restore()
		pass()
		f.toldByALook(waiting, nothing)
	}
	assert.NotEqual(t, backend.Lost, f.S.State())
}

// While a tree has not been read yet, looks show what it will watch.
func TestTreeUnread(t *testing.T) {
	t.Parallel()
	f := setUpOn(t, looking, sharedServer(t))
	o := f.another()
	before, mine := makeMany(f, o, many)
	f.handle(both(under("kv"), asks("keys")), hang)
	all := awaitEach(f, before, mine, func() { time.Sleep(time.Second) })
	time.Sleep(time.Second)
	require.NoError(t, o.S.Discard(o.Ctx, before[many-1]))
	f.toldByALook(all[many-1], mine[many-1], nothing)
}

// While an agent has no connection for a tree, looks show what it will watch. Queries for each entry would need more.
func TestTreeCrowded(t *testing.T) {
	t.Parallel()
	apart := looking
	apart.Apart = true
	f := setUpOn(t, apart, sharedServer(t))
	o := f.another()
	before, mine := makeMany(f, o, many)
	own, _ := f.count(both(blocking, not(asks("recurse"))))
	trees, _ := f.count(both(blocking, asks("recurse")))
	remove := f.handle(both(under("kv"), asks("keys")), crowded) // the first that a tree asks
	all := awaitEach(f, before, mine, func() { time.Sleep(time.Second) })
	time.Sleep(2 * ttl) // longer than a session lasts without heartbeats
	require.NoError(t, o.S.Discard(o.Ctx, before[many-1]))
	f.toldByALook(all[many-1], mine[many-1], nothing)
	assert.Zero(t, trees.Load())
	assert.Less(t, own.Load(), int64(many))
	remove()
	wait.For(t, "the tree", func() bool { return trees.Load() > 0 })
	require.NoError(t, o.S.Discard(o.Ctx, before[0]))
	f.toldByALook(all[0], mine[0], nothing)
}

// A tree that looks cannot read does not end the session: each entry then has its own query.
func TestTreeCannotBeLookedAt(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		why string
		h   consultest.Handler
	}{
		{"too slow", hang},
		{"refused by a proxy", answer(http.StatusBadGateway, "too large")},
	} {
		t.Run(row.why, func(t *testing.T) {
			t.Parallel()
			f := setUpOn(t, looking, sharedServer(t))
			o := f.another()
			before, mine := makeMany(f, o, many)
			all, asked := awaitMany(f, before, mine)
			f.handle(both(recursive, not(blocking)), row.h)
			wait.For(t, "each entry has its own query", func() bool { return asked.Load() >= many })
			f.AwaitState(f.S, backend.Live)
			require.NoError(t, o.S.Discard(o.Ctx, before[many-1]))
			f.toldByALook(all[many-1], mine[many-1], nothing)
		})
	}
}

// A tree that is refused for a moment stays: as many queries as there are entries would take all connections.
func TestTreeRefusedForAMoment(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	o := f.another()
	before, mine := makeMany(f, o, many)
	all, asked := awaitMany(f, before, mine)
	f.first(1, both(recursive, blocking), answer(http.StatusForbidden, "ACL not found"))
	for i := range 3 { // the second one meets the refusal
		require.NoError(t, o.S.Discard(o.Ctx, before[i]))
		f.Told(all[i], mine[i], nothing)
	}
	assert.Less(t, asked.Load(), int64(many))
}

// What an entry is known to be may be wrong: it is read once.
func TestTreeReadsOnce(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	o := f.another()
	before, mine := makeMany(f, o, many)
	last := many - 1
	awaitMany(f, before[:last], mine[:last])
	wrong := before[last]
	wrong.Version++
	reads, _ := f.count(both(under("kv"+wrong.Key), not(blocking)))
	f.Told(f.Awaits(f.S, wrong), before[last])
	time.Sleep(100 * time.Millisecond)
	assert.Equal(t, int64(1), reads.Load())
}

// Commits do not wait for reads that hang.
func TestCommitGoesBeforeReads(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	f.hangReads(100)
	ctx, cancel := context.WithTimeout(f.Ctx, 4*time.Second) // reads are given up after 10 s
	defer cancel()
	_, err := f.S.Commit(ctx, nil, backend.Enqueue(f.Dir, nil))
	require.NoError(t, err)
}

// hangReads begins reads, and waits until as many as may be pending hang.
func (f *fixture) hangReads(n int) {
	f.T.Helper()
	f.handle(query("recurse", false), hang)
	asked, _ := f.count(query("recurse", false))
	for range n {
		f.Gets(f.S, f.Dir+"/x")
	}
	wait.For(f.T, "24 reads", func() bool { return asked.Load() >= 24 })
}

// A commit that was still in line has not been done.
func TestGivenUpInLine(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	f.hangReads(40)
	f.handle(txns, hang)
	asked, _ := f.count(txns)
	for range 8 {
		f.Commits(f.S, backend.Enqueue(f.Dir, nil))
	}
	wait.For(t, "32 requests", func() bool { return asked.Load() >= 8 })
	ctx, cancel := context.WithTimeout(f.Ctx, 300*time.Millisecond)
	defer cancel()
	_, err := f.S.Commit(ctx, nil, backend.Enqueue(f.Dir, nil))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, backend.ErrIndeterminate)
}
