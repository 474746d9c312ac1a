package servicetest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/wait"
)

// A Fixture is a session, for a backend's own tests, and a directory. Its methods end the test if a call
// fails. Each takes the session that makes the call.
type Fixture struct {
	T   *testing.T
	Ctx context.Context // ends when something must hang
	S   *backend.Session
	Dir string
}

// NewFixture returns a fixture without a session and a directory.
func NewFixture(t *testing.T) Fixture {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wait.Patience)
	t.Cleanup(cancel)
	return Fixture{T: t, Ctx: ctx}
}

var roots atomic.Uint64

// NewRoot returns a key that nobody has used before.
func NewRoot() string { return fmt.Sprintf("/test/r%d-%d", time.Now().UnixNano(), roots.Add(1)) }

// Enter makes the directory.
func (f *Fixture) Enter(dir string) {
	f.T.Helper()
	f.Dir = dir
	f.Commit(f.S, backend.CompareAndSet(dir, nil, 0))
}

func (f *Fixture) Commit(s *backend.Session, ops ...backend.Op) []backend.Entry {
	f.T.Helper()
	return must.Get(s.Commit(f.Ctx, nil, ops...))(f.T)
}

// Refused checks that a commit of an op returns each of these errors.
func (f *Fixture) Refused(s *backend.Session, op backend.Op, want ...error) {
	f.T.Helper()
	err := must.Err(s.Commit(f.Ctx, nil, op))
	for _, want := range want {
		require.ErrorIs(f.T, err, want, op.Kind)
	}
}

func (f *Fixture) Enqueue(s *backend.Session) backend.Entry {
	f.T.Helper()
	return f.Commit(s, backend.Enqueue(f.Dir, []byte("v")))[0]
}

func (f *Fixture) Discard(s *backend.Session, entries ...backend.Entry) {
	f.T.Helper()
	for _, e := range entries {
		require.NoError(f.T, s.Discard(f.Ctx, e))
	}
}

func (f *Fixture) Get(s *backend.Session, key string) backend.Entry {
	f.T.Helper()
	return must.Get(s.Get(f.Ctx, key))(f.T)
}

// Gone checks that there is no entry under a key.
func (f *Fixture) Gone(s *backend.Session, key string) {
	f.T.Helper()
	require.ErrorIs(f.T, must.Err(s.Get(f.Ctx, key)), backend.ErrNoEntry)
}

// Stands checks that an entry is as it was.
func (f *Fixture) Stands(s *backend.Session, e backend.Entry) {
	f.T.Helper()
	f.Same(e, f.Get(s, e.Key))
}

// Same checks that an entry is as wanted. All entries that do not exist are the same.
func (f *Fixture) Same(want, got backend.Entry) {
	f.T.Helper()
	require.True(f.T, got.Same(want) || !got.Exists() && !want.Exists(), "%+v, want %+v", got, want)
}

func (f *Fixture) List(s *backend.Session) backend.Listing {
	f.T.Helper()
	return must.Get(s.List(f.Ctx, f.Dir))(f.T)
}

// Lists checks that these entries are enqueued in the directory, in this order.
func (f *Fixture) Lists(s *backend.Session, want ...backend.Entry) {
	f.T.Helper()
	keys := make([]string, len(want))
	for i, e := range want {
		keys[i] = e.Key
	}
	require.Equal(f.T, keys, append([]string{}, f.List(s).Keys...))
}

// Follows checks that e is right behind another entry, or, if that is the zero Entry, behind nobody.
func (f *Fixture) Follows(s *backend.Session, e, before backend.Entry) {
	f.T.Helper()
	f.Same(before, must.Get(s.Predecessor(f.Ctx, e))(f.T))
}

// Commits starts a commit.
func (f *Fixture) Commits(s *backend.Session, ops ...backend.Op) <-chan wait.Result[[]backend.Entry] {
	return wait.Later(func() ([]backend.Entry, error) { return s.Commit(f.Ctx, nil, ops...) })
}

// Gets starts a Get.
func (f *Fixture) Gets(s *backend.Session, key string) <-chan wait.Result[backend.Entry] {
	return wait.Later(func() (backend.Entry, error) { return s.Get(f.Ctx, key) })
}

// Awaits starts an Await.
func (f *Fixture) Awaits(s *backend.Session, known ...backend.Entry) <-chan wait.Result[[]backend.Entry] {
	return wait.Later(func() ([]backend.Entry, error) { return s.Await(f.Ctx, known...) })
}

// Hangs is Awaits, and returns when the call waits.
func (f *Fixture) Hangs(s *backend.Session, known ...backend.Entry) <-chan wait.Result[[]backend.Entry] {
	f.T.Helper()
	return wait.Parked(f.T, func() ([]backend.Entry, error) { return s.Await(f.Ctx, known...) })[0]
}

// AwaitsList starts an AwaitList.
func (f *Fixture) AwaitsList(s *backend.Session, known backend.Listing) <-chan wait.Result[backend.Listing] {
	return wait.Later(func() (backend.Listing, error) { return s.AwaitList(f.Ctx, known) })
}

// Told checks that an Await returns want for the first entries that it is for. The zero Entry is one that is
// gone.
func (f *Fixture) Told(waiting <-chan wait.Result[[]backend.Entry], want ...backend.Entry) {
	f.T.Helper()
	now := wait.Value(f.T, waiting)
	require.GreaterOrEqual(f.T, len(now), len(want))
	for i, e := range want {
		f.Same(e, now[i])
	}
}

// AwaitState waits until a session is in a state. It fails if the session is Lost, unless that is wanted.
func (f *Fixture) AwaitState(s *backend.Session, want backend.State) {
	f.T.Helper()
	AwaitState(f.Ctx, f.T, s, want)
}

// LostAtDeadline waits until the session is lost, and checks that this is when the window ends. Only make
// test-all checks that it is not long after: on a machine that stalls everything is late.
func (f *Fixture) LostAtDeadline() {
	f.T.Helper()
	f.AwaitState(f.S, backend.Lost)
	late := time.Since(f.S.Deadline())
	require.GreaterOrEqual(f.T, late, time.Duration(0), "lost before the end of the window")
	require.True(f.T, testing.Short() || late < f.S.TTL()/2, "lost %v after the end of the window", late)
}

// NeverLost checks at the end of the test that the session was never lost.
func (f *Fixture) NeverLost() {
	f.T.Helper()
	t, s := f.T, f.S
	t.Cleanup(func() { assert.NotEqual(t, backend.Lost, s.State(), "the session was lost") })
}
