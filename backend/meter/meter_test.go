package meter_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/backend/meter"
	"github.com/elector-go/elector/internal/must"
)

// metering is one metered session, and another that is not counted.
type metering struct {
	t     *testing.T
	m     *meter.Backend
	s     *backend.Session
	other *backend.Session
	seen  meter.Counts
}

func metered(t *testing.T, trace func(meter.Call)) *metering {
	service := memory.New(memory.Options{})
	m := &metering{t: t, m: meter.New(service.Client("metered"), trace), other: open(t, service.Client("other"))}
	m.s = open(t, m.m)
	return m
}

// counts checks what was counted since its last call.
func (m *metering) counts(what string, want meter.Counts) {
	m.t.Helper()
	synctest.Wait()
	now := m.m.Counts()
	assert.Equal(m.t, want, now.Sub(m.seen), what)
	m.seen = now
}

// wait runs one wait on a goroutine of its own, and returns a function that ends it.
func (m *metering) wait(wait func(ctx context.Context) error) (cancel func()) {
	ctx, end := context.WithCancel(m.t.Context())
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if err := wait(ctx); err != nil && ctx.Err() == nil {
			m.t.Error(err)
		}
	})
	synctest.Wait()
	return func() { end(); waiting.Wait() }
}

func (m *metering) await(known ...backend.Entry) (cancel func()) {
	return m.wait(func(ctx context.Context) error { _, err := m.s.Await(ctx, known...); return err })
}

func (m *metering) awaitList(known backend.Listing) (cancel func()) {
	return m.wait(func(ctx context.Context) error { _, err := m.s.AwaitList(ctx, known); return err })
}

func TestMeterCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ctx := metered(t, nil), t.Context()
		entry := func(made []backend.Entry, err error) backend.Entry { return must.Get(made, err)(t)[0] }

		dir := entry(m.s.Commit(ctx, nil, backend.CompareAndSet("/dir", nil, 0)))
		m.counts("put", meter.Counts{Commits: 1, Sent: 4, Received: 4})
		first := entry(m.s.Commit(ctx, []backend.Condition{backend.IfExists(dir)}, backend.Enqueue("/dir", []byte("abc"))))
		m.counts("enqueue", meter.Counts{Commits: 1, Sent: 4 + 4 + 3, Received: len(first.Key) + 3})
		second := entry(m.s.Commit(ctx, nil, backend.Enqueue("/dir", nil)))
		m.seen = m.m.Counts()

		must.Get(m.s.Get(ctx, first.Key))(t)
		m.counts("get", meter.Counts{Gets: 1, Sent: len(first.Key), Received: len(first.Key) + 3})
		must.Get(m.s.List(ctx, "/dir"))(t)
		m.counts("list", meter.Counts{Lists: 1, Sent: 4, Received: len(first.Key) + len(second.Key)})
		must.Get(m.s.Predecessor(ctx, second))(t)
		m.counts("predecessor", meter.Counts{Predecessors: 1, Sent: len(second.Key), Received: len(first.Key) + 3})
		assert.NoError(t, m.s.Discard(ctx, second))
		m.counts("drop", meter.Counts{Drops: 1, Sent: len(second.Key)})
		assert.Equal(t, 7, m.m.Counts().Operations())
	})
}

func TestMeterErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ctx := metered(t, nil), t.Context()
		a := create(t, m.s, "/a")
		m.seen = m.m.Counts()
		gone := backend.Entry{Key: "/gone", Rev: 77}
		for _, c := range []struct {
			guards []backend.Condition
			op     backend.Op
			err    error
			sent   int
		}{
			{[]backend.Condition{backend.IfExists(gone)}, backend.CompareAndSet("/b", nil, 0), backend.ErrCondition, 7},
			{nil, backend.CreateEphemeral("/a", nil), backend.ErrExists, 2},
			{nil, backend.CompareAndSet("/a", nil, 0), backend.ErrConflict, 2},
			{nil, backend.Delete(gone), backend.ErrNoEntry, 5},
			{nil, backend.CreateEphemeral("/no/parent", nil), backend.ErrNoParent, 10},
		} {
			_, err := m.s.Commit(ctx, c.guards, c.op)
			assert.ErrorIs(t, err, c.err, "%v of %s", c.op.Kind, c.op.Key)
			m.counts("a commit that is refused", meter.Counts{Commits: 1, Sent: c.sent, Refused: 1})
		}
		assert.ErrorIs(t, must.Err(m.s.Commit(ctx, nil, backend.CreateEphemeral("no key", nil))), backend.ErrBadKey)
		m.counts("a commit that is wrong", meter.Counts{Commits: 1, Sent: 6, Errors: 1})
		assert.ErrorIs(t, must.Err(m.s.Get(ctx, "/gone")), backend.ErrNoEntry)
		m.counts("a get of nothing", meter.Counts{Gets: 1, Sent: 5})

		over, cancel := context.WithCancel(ctx)
		cancel()
		assert.ErrorIs(t, must.Err(m.s.Get(over, "/a")), context.Canceled)
		m.counts("a get that is given up", meter.Counts{Gets: 1, Sent: 2})
		blocked := make(chan error)
		go func() { _, err := m.s.Await(ctx, a); blocked <- err }()
		synctest.Wait()
		m.seen = m.m.Counts()
		assert.NoError(t, m.s.Close(ctx))
		assert.ErrorIs(t, <-blocked, backend.ErrSessionLost)
		m.counts("a wait whose session ends", meter.Counts{Errors: 1})
	})
}

func TestMeterWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ctx := metered(t, nil), t.Context()
		a, b := create(t, m.other, "/a"), create(t, m.other, "/b")

		now := must.Get(m.s.Await(ctx, backend.Unknown("/a")))(t)
		require.True(t, now[0].Same(a), now)
		m.counts("a wait for the unknown is a read that leaves a watch", meter.Counts{Waits: 1, Watches: 1, Sent: 2, Received: 2})
		cancel := m.await(a, b)
		m.counts("one watch is there already", meter.Counts{Waits: 1, Watches: 1, Sent: 4})
		cancel()
		m.counts("a wait that is given up", meter.Counts{})
		cancel = m.await(a, b)
		m.counts("both watches are kept", meter.Counts{Waits: 1, Sent: 4})

		made := must.Get(m.other.Commit(ctx, nil, backend.Update(b, []byte("new"))))(t)
		m.counts("a change", meter.Counts{WakeUps: 1, Received: 2 + 2 + 3})
		b = made[0]
		cancel()
		cancel = m.await(a, b)
		m.counts("the watch that has told is set again", meter.Counts{Waits: 1, Watches: 1, Sent: 4})
		cancel()
		require.NoError(t, m.other.Discard(ctx, a))
		cancel = m.await(a)
		m.counts("a change while nobody waited", meter.Counts{Waits: 1, WakeUps: 1, Sent: 2, Received: 2})
		cancel()
		cancel = m.await(backend.Entry{Key: "/a"})
		m.counts("a wait for what is not there", meter.Counts{Waits: 1, Watches: 1, Sent: 2})
		create(t, m.other, "/a")
		m.counts("it comes", meter.Counts{WakeUps: 1, Received: 2})
		cancel()
	})
}

// Two waits for the same entry share a watch, whichever of them returns first.
func TestMeterSharedWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metered(t, nil)
		a := create(t, m.other, "/a")
		follow := func(ctx context.Context) error {
			known := a
			for {
				now, err := m.s.Await(ctx, known)
				if err != nil {
					return err
				}
				known = now[0]
			}
		}
		one, two := m.wait(follow), m.wait(follow)
		m.counts("two wait", meter.Counts{Waits: 2, Watches: 1, Sent: 4})
		for range 5 {
			made := must.Get(m.other.Commit(t.Context(), nil, backend.Update(a, nil)))(t)
			a = made[0]
			m.counts("a change", meter.Counts{Waits: 2, Watches: 1, WakeUps: 2, Sent: 4, Received: 4})
		}
		one()
		two()
	})
}

func TestMeterListWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ctx := metered(t, nil), t.Context()
		dir := create(t, m.other, "/other")
		must.Get(m.other.Commit(ctx, nil, backend.CompareAndSet("/dir", nil, 0)))(t)
		known := must.Get(m.s.List(ctx, "/dir"))(t)
		m.seen = m.m.Counts()
		cancel := m.awaitList(known)
		m.counts("a wait", meter.Counts{Waits: 1, Watches: 1, Sent: 4})
		cancel()
		cancel = m.awaitList(known)
		m.counts("the watch is kept", meter.Counts{Waits: 1, Sent: 4})
		entry := must.Get(m.other.Commit(ctx, nil, backend.Enqueue("/dir", nil)))(t)[0]
		m.counts("an entry comes", meter.Counts{WakeUps: 1, Received: len(entry.Key)})
		cancel()
		known = must.Get(m.s.List(ctx, "/dir"))(t)
		m.seen = m.m.Counts()
		cancel = m.awaitList(known)
		m.counts("it is set again", meter.Counts{Waits: 1, Watches: 1, Sent: 4})
		// A directory is an entry, too, and then has two watches.
		ends := m.await(must.Get(m.other.Get(ctx, "/dir"))(t), dir)
		m.counts("a wait for the directory itself", meter.Counts{Waits: 1, Watches: 2, Sent: 10})
		ends()
		cancel()
	})
}

func TestMeterTraceAndSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var calls []meter.Call
		m := metered(t, func(c meter.Call) {
			time.Sleep(time.Second) // only the caller waits
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, c)
		})
		ctx := t.Context()
		second := open(t, m.m)
		a := create(t, m.s, "/a")
		start := time.Now()
		end := m.wait(func(ctx context.Context) error { _, err := second.Await(ctx, a); return err })
		time.Sleep(3 * time.Second)
		require.NoError(t, m.s.Discard(ctx, a))
		time.Sleep(time.Second)
		end()
		assert.ErrorIs(t, must.Err(second.Commit(ctx, nil, backend.Delete(a))), backend.ErrNoEntry)
		var kinds []backend.CallKind
		for _, c := range calls {
			kinds = append(kinds, c.Kind)
			waits := c.Kind == backend.CallAwait
			assert.Equal(t, "/a", c.Key)
			assert.Equal(t, c.Session == second.ID(), waits || c.Refused(), "%+v", c)
			assert.Equal(t, waits, c.WokenUp, "%+v", c)
			if c.WokenUp {
				assert.Equal(t, []time.Duration{0, 3 * time.Second}, []time.Duration{c.Began.Sub(start), c.End.Sub(start)})
			}
			assert.Equal(t, c.Err != nil, c.Refused(), "%+v", c)
			assert.True(t, !c.Refused() || c.Ops[0].Kind == backend.OpDelete, "%+v", c)
		}
		slices.Sort(kinds[1:3]) // drop and await end at the same instant
		assert.Equal(t, []backend.CallKind{backend.CallCommit, backend.CallAwait, backend.CallDiscard, backend.CallCommit}, kinds)
		each := m.m.Sessions()
		require.Len(t, each, 2)
		assert.Equal(t, []string{m.s.ID(), second.ID()}, []string{each[0].ID, each[1].ID})
		assert.Equal(t, []int{1, 1}, []int{each[0].Drops, each[1].WakeUps})
		assert.Equal(t, m.m.Counts(), each[0].Add(each[1].Counts))
	})
}

func TestMeterInATest(t *testing.T) { testOneWakeUp(t) }

// For a closed session only its share of the sum is kept, and later calls on it count.
func TestMeterLetsClosedSessionsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := meter.New(memory.New(memory.Options{}), nil)
		first, second := open(t, m), open(t, m)
		create(t, first, "/a")
		create(t, second, "/b")
		for range 2 {
			require.NoError(t, first.Close(t.Context()))
		}
		assert.ErrorIs(t, must.Err(first.Get(t.Context(), "/b")), backend.ErrSessionLost)
		each, sum := m.Sessions(), m.Counts()
		assert.True(t, len(each) == 1 && each[0].ID == second.ID() && each[0].Commits == 1, "%+v, want the open one", each)
		assert.Equal(t, []int{2, 1, 1}, []int{sum.Commits, sum.Gets, sum.Errors})
	})
}

func open(t *testing.T, b backend.Backend) *backend.Session {
	t.Helper()
	s := must.Get(b.Open(t.Context(), backend.OpenOptions{}))(t)
	return s
}

func create(t *testing.T, s *backend.Session, key string) backend.Entry {
	t.Helper()
	made := must.Get(s.Commit(t.Context(), nil, backend.CreateEphemeral(key, nil)))(t)
	return made[0]
}
