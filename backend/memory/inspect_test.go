package memory_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/must"
)

// Listing is what a session's List returns, at every stage of a directory's life.
func TestListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc, ctx := memory.New(memory.Options{}), t.Context()
		s := must.Get(svc.Open(ctx, backend.OpenOptions{}))(t)
		defer s.Close(context.Background())
		same := func(when string) {
			t.Helper()
			want := must.Get(s.List(ctx, "/dir"))(t)
			got := svc.Listing("/dir")
			assert.True(t, got.Dir == want.Dir && got.Rev == want.Rev && slices.Equal(got.Keys, want.Keys), "%s: %+v, want %+v", when, got, want)
		}
		commit := func(op backend.Op) backend.Entry {
			t.Helper()
			made := must.Get(s.Commit(ctx, nil, op))(t)
			return made[0]
		}
		same("none")
		commit(backend.CompareAndSet("/dir", nil, 0))
		same("empty")
		e := commit(backend.Enqueue("/dir", nil))
		commit(backend.Enqueue("/dir", nil))
		commit(backend.CreateEphemeral("/dir/seat", nil))
		same("two and a seat")
		commit(backend.Delete(e))
		same("one")
		svc.Delete("/dir")
		same("gone")
	})
}

// A waiter that a change has woken is due until it has looked at the change.
func TestDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := memory.New(memory.Options{})
		client := svc.Client("a")
		s := must.Get(client.Open(t.Context(), backend.OpenOptions{}))(t)
		defer s.Close(context.Background())
		due := func(when string, want int) {
			t.Helper()
			synctest.Wait()
			assert.Equal(t, want, svc.Stats().Due, when)
		}
		await := func(ctx context.Context, key string) (ended chan error) {
			ended = make(chan error, 1)
			go func() {
				_, err := s.Await(ctx, svc.Entry(key))
				ended <- err
			}()
			synctest.Wait()
			return ended
		}
		put := func(key string) {
			t.Helper()
			require.NoError(t, svc.Put(key, nil))
		}
		told := await(t.Context(), "/a")
		ctx, giveUp := context.WithCancel(t.Context())
		gone := await(ctx, "/b")
		due("nothing has changed", 0)
		release := client.HoldWakeups()
		put("/a")
		put("/a")
		due("one is told of two changes", 1)
		put("/b")
		due("another is told", 2)
		giveUp()
		assert.Error(t, <-gone, "what it would tell is held back")
		due("the other has given up", 1)
		release()
		assert.NoError(t, <-told)
		due("all have looked", 0)
		// A change that is undone before anybody looks wakes a waiter that continues to wait.
		release = client.HoldWakeups()
		told = await(t.Context(), "/c")
		put("/c")
		svc.Delete("/c")
		due("undone", 1)
		release()
		due("undone, and looked at", 0)
		put("/c")
		assert.NoError(t, <-told)
	})
}

// An entry is enqueued beside a foreign entry that has taken its next name.
func TestEnqueueBesideATakenName(t *testing.T) {
	svc, ctx := memory.New(memory.Options{}), t.Context()
	s := must.Get(svc.Open(ctx, backend.OpenOptions{}))(t)
	first := must.Get(s.Commit(ctx, nil, backend.CompareAndSet("/dir", nil, 0), backend.Enqueue("/dir", nil)))(t)
	taken := strings.TrimSuffix(first[1].Key, "1") + "2"
	require.NoError(t, svc.Put(taken, []byte("theirs")))
	assert.NotEqual(t, taken, must.Get(s.Commit(ctx, nil, backend.Enqueue("/dir", nil)))(t)[0].Key)
	assert.Equal(t, "theirs", string(svc.Entry(taken).Value))
	assert.NoError(t, s.Close(ctx))
	svc.Delete("/dir")
}
