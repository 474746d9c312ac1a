package etcd_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/etcdtest"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servicetest"
	"github.com/elector-go/elector/internal/wait"
)

const manySeats = 30

// second enqueues an entry of s behind each of the given ones, and awaits both.
func (f *fixture) second(s *backend.Session, first []backend.Entry) (own []backend.Entry, all []<-chan wait.Result[[]backend.Entry]) {
	f.T.Helper()
	for i, before := range first {
		own = append(own, f.Commit(s, backend.Enqueue(backend.Parent(before.Key), nil))[0])
		all = append(all, f.Awaits(s, own[i], before))
	}
	return own, all
}

// successive lets others' entries go, then a session's own ones, and checks that it is told of all.
func (f *fixture) successive(own []backend.Entry, all []<-chan wait.Result[[]backend.Entry], end func()) {
	f.T.Helper()
	for _, waiting := range all {
		wait.Pending(f.T, waiting)
	}
	end()
	var next []<-chan wait.Result[[]backend.Entry]
	for i, waiting := range all {
		now := wait.Value(f.T, waiting)
		assert.True(f.T, now[0].Same(own[i]) && !now[1].Exists(), now)
		next = append(next, f.Awaits(f.S, own[i]))
	}
	for _, waiting := range next {
		wait.Pending(f.T, waiting)
	}
	must.Get(f.operator().Delete(f.Ctx, f.Dir+"/", clientv3.WithPrefix()))(f.T)
	for _, waiting := range next {
		assert.False(f.T, wait.Value(f.T, waiting)[0].Exists())
	}
}

// A session that waits in many elections below one path has one watch for them.
func TestManyElectionsHaveOneWatch(t *testing.T) {
	t.Parallel()
	f, other := setUpTwo(t, 30*time.Second)
	own, all := f.second(f.S, f.elections(manySeats, other.S))
	f.successive(own, all, func() { assert.NoError(t, other.S.Close(f.Ctx)) })
	assert.LessOrEqual(t, f.WatchesMade(), 12)
}

// While the process is cut off, the entries before its own go, and the history is compacted.
func TestManyElectionsAfterACut(t *testing.T) {
	t.Parallel()
	addr := etcdtest.Single(t).Members[0].Addr()
	f := setUpOn(t, 30*time.Second, nil, addr)
	other := f.another(30 * time.Second)
	own, all := f.second(f.S, f.elections(manySeats, other.S))
	f.successive(own, all, func() {
		f.Suspend()
		assert.NoError(t, other.S.Close(f.Ctx))
		f.compact(f.operator())
		f.Resume()
	})
}

// A user who may read each election, but not all that is below their path, has a watch for each.
func TestManyElectionsWithSingleRights(t *testing.T) {
	g := newGuarded(t)
	g.grant("eve", "/e", "", mayWrite)
	g.grant("eve", "/f", "/f0", mayWrite)
	root := &fixture{Fixture: servicetest.NewFixture(t), Process: g.process("root")}
	root.S = root.open(30 * time.Second)
	root.Enter("/e")
	first := root.elections(manySeats, root.S)
	for _, e := range first {
		dir := backend.Parent(e.Key)
		g.grant("eve", dir, dir+"0", mayWrite)
	}
	f := &fixture{Fixture: servicetest.NewFixture(t), Process: g.process("eve")}
	f.S = f.open(30 * time.Second)
	f.Dir = "/e"
	own, all := f.second(f.S, first)
	for _, waiting := range all {
		wait.Pending(t, waiting)
	}
	assert.NoError(t, root.S.Close(f.Ctx))
	for i, waiting := range all {
		now := wait.Value(t, waiting)
		assert.True(t, now[0].Same(own[i]) && !now[1].Exists(), now)
	}
	assert.GreaterOrEqual(t, f.WatchesMade(), manySeats)
}
