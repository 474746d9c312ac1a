package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/wait"
)

// A screen shows what is published.
type screen struct {
	sync.Mutex
	shown []string
}

func (s *screen) apply(e backend.Entry) {
	s.Lock()
	defer s.Unlock()
	text := "none"
	if e.Exists() {
		text = string(e.Value)
	}
	s.shown = append(s.shown, text)
}

func (s *screen) all() []string {
	s.Lock()
	defer s.Unlock()
	return append([]string(nil), s.shown...)
}

func (s *screen) last() string {
	if all := s.all(); len(all) > 0 {
		return all[len(all)-1]
	}
	return ""
}

// follow subscribes until the test ends.
func follow(t *testing.T, b backend.Backend, key string) *screen {
	var s screen
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- Subscribe(ctx, b, key, s.apply) }()
	t.Cleanup(func() {
		cancel()
		assert.ErrorIs(t, <-done, context.Canceled)
	})
	return &s
}

func TestPublishAndSubscribe(t *testing.T) {
	onAll(t, func(t *testing.T, b backend.Backend) {
		one, two := follow(t, b, keyOf(t)), follow(t, b, keyOf(t))
		shows := func(want string) {
			t.Helper()
			require.Eventually(t, func() bool { return one.last() == want && two.last() == want }, wait.Patience, 10*time.Millisecond)
		}
		shows("none")
		s := open(t, b)
		e, err := Publish(t.Context(), s, backend.Entry{Key: keyOf(t)}, []byte("a"))
		require.NoError(t, err)
		shows("a")
		b1, err := Publish(t.Context(), s, e, []byte("b"))
		require.NoError(t, err)
		shows("b")
		_, err = Publish(t.Context(), s, e, []byte("by one who has read a"))
		assert.True(t, refused(err), "%v", err)
		_, err = Publish(t.Context(), s, backend.Entry{Key: keyOf(t)}, []byte("by one who has read nothing"))
		assert.True(t, refused(err), "%v", err)
		_, err = s.Commit(t.Context(), nil, backend.Delete(b1)) // an operator
		require.NoError(t, err)
		shows("none")
		_, err = Publish(t.Context(), s, b1, []byte("by one who has not heard of it"))
		assert.True(t, refused(err), "%v", err)
		_, err = Publish(t.Context(), s, backend.Entry{Key: keyOf(t)}, []byte("c"))
		require.NoError(t, err)
		shows("c")
	})
}

// TestPublishWithLostReplies holds that what was published is not taken for refused.
func TestPublishWithLostReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		client := service.Client("a")
		s := open(t, client)
		e := backend.Entry{Key: "/config"}
		for i, fault := range []func(memory.Match){client.LoseReply, client.LoseRequest, client.LoseReply} {
			fault(nil)
			var err error
			e, err = Publish(t.Context(), s, e, []byte(fmt.Sprint(i)))
			require.NoError(t, err)
			assert.Equal(t, fmt.Sprint(i), string(service.Entry("/config").Value))
		}
		// One whose outcome the service cannot tell.
		doubtful := s.Around(backend.Layer{Call: func(ctx context.Context, c *backend.Call, next func(context.Context) error) error {
			err := next(ctx)
			if c.Kind == backend.CallCommit && err == nil {
				err = backend.ErrIndeterminate
			}
			return err
		}})
		_, err := Publish(t.Context(), doubtful, e, []byte("doubtful"))
		assert.ErrorIs(t, err, backend.ErrIndeterminate)
		assert.False(t, refused(err), "%v", err)
		assert.Equal(t, "doubtful", string(service.Entry("/config").Value))
	})
}

// TestSlowSubscriber misses what lies in between, and has the last one. Over lost sessions, and servers
// that are behind, it never goes back.
func TestSlowSubscriber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		client := service.Client("slow")
		screen := follow(t, client, "/config")
		s := open(t, service)
		e := backend.Entry{Key: "/config"}
		publish := func(from, to int) {
			for i := from; i <= to; i++ {
				var err error
				e, err = Publish(t.Context(), s, e, []byte(strconv.Itoa(i)))
				require.NoError(t, err)
			}
		}
		client.DelayWakeups(time.Second)
		publish(1, 10)
		time.Sleep(time.Minute)
		assert.Equal(t, "10", screen.last())
		assert.Less(t, len(screen.all()), 11, "some are missed")
		client.DelayWakeups(0)

		client.Suspend()
		publish(11, 20)
		time.Sleep(time.Minute)
		assert.Equal(t, "10", screen.last(), "out of touch it has what it had")
		client.Resume()
		time.Sleep(time.Minute)
		assert.Equal(t, "20", screen.last())

		catchUp := service.Lag() // sessions that are opened now see nothing newer
		publish(21, 30)
		time.Sleep(time.Minute)
		client.Expire()
		time.Sleep(time.Minute)
		catchUp()
		time.Sleep(time.Minute)
		assert.Equal(t, "30", screen.last())
		before := 0
		for _, value := range screen.all()[1:] {
			now, err := strconv.Atoi(value)
			require.NoError(t, err)
			assert.Greater(t, now, before, "%v", screen.all())
			before = now
		}
	})
}
