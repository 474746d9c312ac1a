package register

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
	"github.com/elector-go/elector/internal/must"
)

// open opens a session, which is closed at the end.
func open(t *testing.T, p *process) *backend.Session {
	t.Helper()
	s := must.Get(p.backend.Open(t.Context(), backend.OpenOptions{TTL: ttl}))(t)
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

// bubble is a test on fake time. What it starts ends in it.
func bubble(t *testing.T, f func(t *testing.T, o *object)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, &object{}) })
}

func TestNew(t *testing.T) {
	for want, cfg := range map[string]Config{
		"Config.Name is empty": {Store: &process{}},
		"Config.Store is nil":  {Name: "x"},
		"is negative":          {Name: "x", Store: &process{}, Poll: -1},
	} {
		require.ErrorContains(t, must.Err(New(cfg)), want)
	}
}

// What somebody else has written is never overwritten, and the error says what is wrong.
func TestForeignObject(t *testing.T) {
	for text, want := range map[string]string{
		"{}":                     "it has no format",
		"null":                   "it has no format",
		"":                       "holds no document",
		"not JSON":               "holds no document",
		`{"elector":1,"seq":"x"`: "holds no document",
		`{"elector":2}`:          "run the same release everywhere",
		`[1]`:                    "holds no document",
	} {
		t.Run(text, func(t *testing.T) {
			bubble(t, func(t *testing.T, o *object) {
				_ = must.Get(o.swap([]byte(text), ""))(t)
				p := newProcess(o, true)
				_, err := p.backend.Open(t.Context(), backend.OpenOptions{})
				require.ErrorContains(t, err, want)
				require.NotErrorIs(t, err, backend.ErrUnavailable, "trying again is of no use")
				require.ErrorContains(t, p.backend.Execute(t.Context(), backend.Will{Session: "x"}), want)
				assert.Equal(t, text, string(o.text))
			})
		})
	}
}

// An object that is replaced under live sessions is not overwritten either, and the sessions end with their windows.
func TestObjectReplaced(t *testing.T) {
	bubble(t, func(t *testing.T, o *object) {
		s := open(t, newProcess(o, true))
		_ = must.Get(o.swap([]byte("{}"), o.tag()))(t)
		_, err := s.Get(t.Context(), "/a")
		require.ErrorContains(t, err, "it has no format")
		awaitLost(t, s)
		assert.Equal(t, "{}", string(o.text))
	})
}

func awaitLost(t *testing.T, s *backend.Session) {
	t.Helper()
	for state := s.State(); state != backend.Lost; {
		state = must.Get(s.AwaitState(t.Context(), state))(t)
	}
}

// An object that is deleted, or restored from a backup, ends all sessions, and revisions continue to rise.
func TestObjectGoesBack(t *testing.T) {
	for name, earlier := range map[string]bool{"deleted": false, "restored": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, o *object) {
				p := newProcess(o, true)
				a, b := open(t, p), open(t, newProcess(o, false))
				old := must.Get(a.Commit(t.Context(), nil, backend.CompareAndSet("/a", nil, 0)))(t)[0]
				backup := o.text
				last := must.Get(a.Commit(t.Context(), nil, backend.CreateEphemeral("/a/seat", nil)))(t)[0]
				o.mu.Lock()
				o.text = nil
				if earlier {
					o.text = backup
				}
				o.swaps++
				o.changed.Fire()
				o.mu.Unlock()
				awaitLost(t, a)
				if !earlier { // what b has done is in the backup
					awaitLost(t, b)
				}
				c := open(t, p)
				if earlier {
					assert.Equal(t, old.Rev, must.Get(c.Get(t.Context(), "/a"))(t).Rev)
				}
				assert.Greater(t, must.Get(c.Commit(t.Context(), nil, backend.CompareAndSet("/b", nil, 0)))(t)[0].Rev, last.Rev)
			})
		})
	}
}

// A session whose process is dead is removed one timeout after another process has seen its last heartbeat, and
// never before its window has ended.
func TestObservedEnd(t *testing.T) {
	bubble(t, func(t *testing.T, o *object) {
		p, q := newProcess(o, true), newProcess(o, true)
		dead, s := open(t, p), open(t, q)
		must.Get(s.Commit(t.Context(), nil, backend.CompareAndSet("/a", nil, 0)))(t)
		seat := must.Get(dead.Commit(t.Context(), nil, backend.CreateEphemeral("/a/seat", nil)))(t)[0]
		seen := time.Now()
		deadline := dead.Deadline()
		p.breaks(errCut)
		must.Get(s.Await(t.Context(), seat))(t)
		assert.False(t, time.Now().Before(deadline))
		assert.InDelta(t, ttl.Seconds(), time.Since(seen).Seconds(), ttl.Seconds()/50)

		// A newcomer counts from its own first look.
		dead = open(t, newProcess(o, true))
		driver.Of[*session](dead).Lose(errors.New("killed"))
	})
}

// A newcomer, or a process that was asleep, removes nobody by what it knew before.
func TestObserverAsleep(t *testing.T) {
	bubble(t, func(t *testing.T, o *object) {
		p, q := newProcess(o, true), newProcess(o, true)
		s := open(t, p)
		sleeper := open(t, q)
		q.hold(&q.notices)
		release := q.hold(&q.requests) // all that it sends comes late, a removal, too
		time.Sleep(4 * ttl)
		release()
		time.Sleep(4 * ttl)
		assert.Equal(t, backend.Live, s.State())
		assert.Equal(t, backend.Lost, sleeper.State())
	})
}

// A process that writes all the time does not keep the heartbeats of others from succeeding.
func TestHotWriter(t *testing.T) {
	bubble(t, func(t *testing.T, o *object) {
		others := []*backend.Session{open(t, newProcess(o, true)), open(t, newProcess(o, true)), open(t, newProcess(o, false))}
		hot := open(t, newProcess(o, true))
		made := must.Get(hot.Commit(t.Context(), nil, backend.CompareAndSet("/a", nil, 0)))(t)[0]
		for began := time.Now(); time.Since(began) < 10*ttl; {
			made = must.Get(hot.Commit(t.Context(), nil, backend.Update(made, nil)))(t)[0]
			for _, s := range others {
				require.Greater(t, time.Until(s.Deadline()), ttl/4)
			}
		}
	})
}

// A commit that would make the object too large is refused before it is sent, and others go on.
func TestTooLarge(t *testing.T) {
	bubble(t, func(t *testing.T, o *object) {
		s := open(t, newProcess(o, true))
		swaps := o.swaps
		_, err := s.Commit(t.Context(), nil, backend.CompareAndSet("/a", make([]byte, maxBytes), 0))
		require.ErrorIs(t, err, backend.ErrTooLarge)
		require.ErrorContains(t, err, fmt.Sprintf("at most %d (Config.MaxBytes)", maxBytes))
		assert.Equal(t, swaps, o.swaps)
		must.Get(s.Commit(t.Context(), nil, backend.CompareAndSet("/a", nil, 0)))(t)
	})
}

// TestContention logs what many sessions cost one another, with round trips of 10 ms on average.
func TestContention(t *testing.T) {
	for _, n := range []int{3, 10, 20, 50} {
		for _, notified := range []bool{true, false} {
			bubble(t, func(t *testing.T, o *object) {
				const timeout = 15 * time.Second
				var sessions []*backend.Session
				for range n {
					p := newProcess(o, notified)
					p.trip = 6666 * time.Microsecond
					s := must.Get(p.backend.Open(t.Context(), backend.OpenOptions{TTL: timeout}))(t)
					t.Cleanup(func() { _ = s.Close(context.Background()) })
					sessions = append(sessions, s)
				}
				time.Sleep(timeout)
				done, moved := o.counts()
				least := time.Duration(math.MaxInt64)
				const watched = time.Minute
				for range int(watched / (100 * time.Millisecond)) {
					time.Sleep(100 * time.Millisecond)
					for _, s := range sessions {
						least = min(least, time.Until(s.Deadline()))
					}
				}
				allDone, allMoved := o.counts()
				done, moved = allDone-done, allMoved-moved
				t.Logf("N = %d, notices %v: %.1f swaps a second, %.0f %% lost, window left at least %v",
					n, notified, float64(done)/watched.Seconds(), 100*float64(moved)/float64(done+moved), least.Round(10*time.Millisecond))
				require.Greater(t, least, timeout/4)
				assert.False(t, slices.ContainsFunc(sessions, func(s *backend.Session) bool { return s.State() != backend.Live }))
			})
		}
	}
}
