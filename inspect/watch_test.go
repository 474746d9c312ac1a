package inspect_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/inspect"
	"github.com/elector-go/elector/internal/election"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/strategy"
	"github.com/elector-go/elector/strategy/catalog"
	"github.com/elector-go/elector/strategy/fair"
	"github.com/elector-go/elector/strategy/kafka"
	"github.com/elector-go/elector/strategy/ranked"
	"github.com/elector-go/elector/strategy/unfair"
)

// A diary is what a watch has yielded.
type diary struct {
	mu    sync.Mutex
	views []inspect.View
	err   error
}

// watch runs a watch until the test ends.
func (s *stage) watch(o inspect.WatchOptions) *diary { return watch(s.T, s.in, path, o) }

func watch(t *testing.T, in *inspect.Inspector, election string, o inspect.WatchOptions) *diary {
	l := new(diary)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for v, err := range in.Watch(ctx, election, o) {
			l.mu.Lock()
			if l.err = err; err == nil {
				l.views = append(l.views, v)
			}
			l.mu.Unlock()
		}
	})
	t.Cleanup(func() { cancel(); running.Wait(); assert.Error(t, l.err) })
	return l
}

func (l *diary) all() []inspect.View {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.views)
}

// said returns the leaders in order, with ! for trouble, and - for a path without an election.
func (l *diary) said() (all []string) {
	for _, v := range l.all() {
		s := "nobody"
		if v.Strategy == "" {
			s = "-"
		} else if v.Leader != nil {
			s = v.Leader.ID
		}
		if v.Trouble != nil {
			s += "!"
		}
		if len(all) == 0 || all[len(all)-1] != s {
			all = append(all, s)
		}
	}
	return all
}

func (l *diary) last() inspect.View {
	all := l.all()
	return all[len(all)-1]
}

func TestWatchEach(t *testing.T) {
	each(t, func(s *stage, item catalog.Item) {
		l := s.watch(inspect.WatchOptions{Candidates: true})
		synctest.Wait()
		assert.Equal(s, []string{"-"}, l.said())
		one := s.stand(item.Strategy, "7")
		two := s.stand(item.Strategy, "8")
		time.Sleep(10 * time.Second)
		v := must.Get(s.in.Candidates(s.Context(), path))(s)
		v.At = l.last().At
		assert.Equal(s, v, l.last())
		one()
		time.Sleep(10 * time.Second)
		v = must.Get(s.in.Candidates(s.Context(), path))(s)
		v.At = l.last().At
		assert.Equal(s, v, l.last())
		require.NotNil(s, v.Leader)
		assert.Equal(s, "8", v.Leader.ID)
		two()
		time.Sleep(10 * time.Second)
		last := l.last()
		assert.Nil(s, last.Leader)
		assert.Empty(s, last.Candidates)
		assert.Zero(s, last.Count)
		assert.Equal(s, item.Strategy.Name(), last.Strategy)
		if _, custom := item.Strategy.(strategy.CustomLayout); !custom {
			must.Get(s.in.Remove(s.Context(), path, inspect.RemoveOptions{}))(s)
			synctest.Wait()
			time.Sleep(time.Second)
			assert.Equal(s, "-", l.said()[len(l.said())-1])
		}
		for _, v := range l.all() {
			assert.Nil(s, v.Trouble)
			if v.Leader == nil {
				continue
			}
			for _, c := range v.Candidates {
				assert.Equal(s, c.Key == v.Leader.Key && c.Session == v.Leader.Session, c.Leads, "%+v", v)
			}
		}
	})
}

// TestWatchStrategyChanges checks that a watch continues when an election is founded again with another
// strategy.
func TestWatchStrategyChanges(t *testing.T) {
	bubble(t, inspect.Options{}, func(s *stage) {
		l := s.watch(inspect.WatchOptions{Candidates: true})
		for n, strategy := range []strategy.Strategy{fair.Strategy{}, unfair.Strategy{}, own{}, ranked.Strategy{}} {
			end := s.stand(strategy, fmt.Sprint(n))
			time.Sleep(time.Second)
			assert.Equal(s, strategy.Name(), l.last().Strategy)
			require.NotNil(s, l.last().Leader)
			end()
			time.Sleep(10 * time.Second)
			assert.Nil(s, l.last().Leader)
			require.NoError(s, election.Remove(s.Context(), s.service, strategy, path))
			time.Sleep(time.Second)
			assert.Empty(s, l.last().Strategy)
		}
	})
}

// TestWatchOutOfTouch checks that a leader is not shown as one while the watch cannot know, and that all
// is well only after it has looked again.
func TestWatchOutOfTouch(t *testing.T) {
	for _, long := range []bool{false, true} { // within its session's timeout, and after it
		t.Run(fmt.Sprint(long), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := memory.New(memory.Options{DefaultTTL: 4 * time.Second})
				operator := service.Client("operator")
				s := &stage{T: t, service: service, in: inspector(t, operator, inspect.Options{})}
				one := s.stand(fair.Strategy{}, "7")
				s.stand(fair.Strategy{}, "8")
				l := s.watch(inspect.WatchOptions{Candidates: true})
				synctest.Wait()
				assert.Equal(t, []string{"7"}, l.said())
				cut := time.Now()
				operator.Suspend()
				synctest.Wait()
				assert.Equal(t, []string{"7", "7!"}, l.said())
				assert.Equal(t, cut, l.last().Trouble.Since)
				one()
				if long {
					time.Sleep(20 * time.Second)
				}
				assert.Equal(t, []string{"7", "7!"}, l.said())
				assert.Equal(t, cut, l.last().Trouble.Since, "the first time counts")
				operator.Resume()
				time.Sleep(10 * time.Second)
				// The notice may come before the watch has looked again.
				said := slices.DeleteFunc(l.said(), func(s string) bool { return s == "8!" })
				assert.Equal(t, []string{"7", "7!", "8"}, said)
				assert.Equal(t, []string{"8"}, ids(l.last()))
			})
		})
	}
}

// TestWatchBeginsOutOfTouch checks that a watch soon reports that nobody answers, and continues.
func TestWatchBeginsOutOfTouch(t *testing.T) {
	bubble(t, inspect.Options{}, func(s *stage) {
		s.stand(fair.Strategy{}, "7")
		s.service.Stop()
		l := s.watch(inspect.WatchOptions{})
		time.Sleep(3 * time.Second)
		require.NotEmpty(s, l.all())
		assert.Equal(s, "-!", l.said()[0])
		assert.Less(s, len(l.all()), 10)
		s.service.Start()
		time.Sleep(30 * time.Second)
		assert.Equal(s, "7", l.said()[len(l.said())-1])
	})
}

// TestWatchBacksOff checks that a service that is down is not flooded.
func TestWatchBacksOff(t *testing.T) {
	bubble(t, inspect.Options{}, func(s *stage) {
		var mu sync.Mutex
		tries := 0
		b := &counted{Backend: s.service, open: func() { mu.Lock(); tries++; mu.Unlock() }}
		in := inspector(s.T, b, inspect.Options{})
		s.service.Stop()
		watch(s.T, in, path, inspect.WatchOptions{})
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		assert.Greater(s, tries, 10)
		assert.Less(s, tries, 30)
		s.service.Start()
	})
}

type counted struct {
	backend.Backend
	open func()
}

func (c *counted) Open(ctx context.Context, o backend.OpenOptions) (*backend.Session, error) {
	c.open()
	return c.Backend.Open(ctx, o)
}

// TestWatchesLeaveRoom checks that watches leave room for candidates if a service limits its waits.
func TestWatchesLeaveRoom(t *testing.T) {
	bubble(t, inspect.Options{}, func(s *stage) {
		var waits, most atomic.Int64
		b := backend.Intercept(s.service, func(ctx context.Context, c *backend.Call, next func(context.Context) error) error {
			if c.Waits() {
				most.Store(max(most.Load(), waits.Add(1)))
				defer waits.Add(-1)
			}
			return next(ctx)
		})
		in := inspector(s.T, limited{b}, inspect.Options{})
		end := s.stand(fair.Strategy{}, "7")
		ctx, cancel := context.WithCancel(s.Context())
		for n := range 2 {
			go func() {
				for range in.Watch(ctx, fmt.Sprint("/other/", n), inspect.WatchOptions{Candidates: true}) {
				}
			}()
		}
		synctest.Wait()
		before := most.Load()
		l := watch(s.T, in, path, inspect.WatchOptions{Candidates: true, Every: time.Second})
		synctest.Wait()
		assert.Equal(s, []string{"7"}, ids(l.last()))
		end()
		s.stand(fair.Strategy{}, "8")
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(s, []string{"8"}, ids(l.last()))
		assert.Equal(s, before, most.Load(), "it does not wait")
		s.service.Stop()
		time.Sleep(4 * time.Second)
		assert.NotNil(s, l.last().Trouble)
		s.service.Start()
		time.Sleep(10 * time.Second)
		assert.Nil(s, l.last().Trouble)
		cancel()
		time.Sleep(10 * time.Second)
		assert.Positive(s, waits.Load(), "there is room now")
		assert.Equal(s, []string{"8"}, ids(l.last()))
	})
}

// limited is a service that lets two watches wait.
type limited struct{ backend.Backend }

func (b limited) Limits() backend.Limits {
	l := b.Backend.Limits()
	l.Waits = 24
	return l
}

// TestWatchIsBounded checks how often candidates are read, even while many come and go.
func TestWatchIsBounded(t *testing.T) {
	bubble(t, inspect.Options{}, func(s *stage) {
		s.stand(fair.Strategy{}, "7")
		l := s.watch(inspect.WatchOptions{Candidates: true, Every: time.Second})
		time.Sleep(5 * time.Second)
		before := len(l.all())
		for n := range 100 {
			end := s.stand(fair.Strategy{}, fmt.Sprint("visitor ", n))
			time.Sleep(50 * time.Millisecond)
			end()
			time.Sleep(50 * time.Millisecond)
		}
		assert.LessOrEqual(s, len(l.all())-before, 11)
		time.Sleep(2 * time.Second)
		assert.Equal(s, []string{"7"}, ids(l.last()))
	})
}

// After a look that took long, as the service turned it away, the next one comes soon.
func TestWatchAfterASlowLook(t *testing.T) {
	for what, limit := range map[string]func(backend.Backend) backend.Backend{
		"one that waits": func(b backend.Backend) backend.Backend { return b },
		"one that looks": func(b backend.Backend) backend.Backend { return limited{b} },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &stage{T: t, service: memory.New(memory.Options{})}
				watcher := s.service.Client("operator")
				in := inspector(t, limit(watcher), inspect.Options{})
				end := s.stand(fair.Strategy{}, "7")
				for n := range 2 { // in a service with limits these take the room to wait
					watch(t, in, fmt.Sprint("/other", n), inspect.WatchOptions{})
				}
				time.Sleep(time.Second)
				l := watch(t, in, path, inspect.WatchOptions{Candidates: true})
				time.Sleep(5 * time.Second)
				release := watcher.Throttle()
				s.stand(fair.Strategy{}, "8")
				time.Sleep(20 * time.Second)
				release()
				time.Sleep(10 * time.Second)
				end()
				time.Sleep(12 * time.Second)
				assert.Equal(t, []string{"8"}, ids(l.last()))
				assert.Nil(t, l.last().Trouble)
			})
		})
	}
}

// layered is a service in which each call of an operator passes through do.
func (s *stage) layered(do func(*backend.Call)) *inspect.Inspector {
	layer := backend.Layer{Call: func(ctx context.Context, c *backend.Call, next func(context.Context) error) error {
		do(c)
		return next(ctx)
	}}
	return inspector(s.T, backend.Around(s.service.Client("slow"), func(*backend.Session) backend.Layer { return layer }), inspect.Options{})
}

// A watch that has not read all yet says so, and no more once it has.
func TestWatchThatReadsForLong(t *testing.T) {
	bubble(t, inspect.Options{}, func(s *stage) {
		s.stand(ranked.Strategy{}, "7")
		in := s.layered(func(c *backend.Call) {
			if c.Kind == backend.CallList {
				time.Sleep(time.Minute)
			}
		})
		l := watch(s.T, in, path, inspect.WatchOptions{Candidates: true})
		time.Sleep(5 * time.Second)
		assert.Equal(s, []string{"7!"}, l.said())
		time.Sleep(5 * time.Minute)
		assert.Equal(s, []string{"7!", "7"}, l.said())
	})
}

// A layer that ends a goroutine, as FailNow of a test's fake does, ends no watch, and hides no election.
func TestLayerThatEndsTheGoroutine(t *testing.T) {
	for _, kind := range []backend.CallKind{backend.CallList, backend.CallAwait, backend.CallGet} {
		bubble(t, inspect.Options{}, func(s *stage) {
			s.stand(fair.Strategy{}, "7")
			var once sync.Once
			in := s.layered(func(c *backend.Call) {
				if c.Kind == kind && c.Key != "/" {
					once.Do(runtime.Goexit)
				}
			})
			l := watch(s.T, in, path, inspect.WatchOptions{Candidates: true})
			time.Sleep(time.Minute)
			assert.Equal(s, []string{"7"}, ids(l.last()))
		})
	}
	bubble(t, inspect.Options{}, func(s *stage) {
		s.stand(fair.Strategy{}, "7")
		var once sync.Once
		in := s.layered(func(c *backend.Call) {
			if c.Kind == backend.CallGet && c.Key == path {
				once.Do(runtime.Goexit)
			}
		})
		_, err := in.List(s.Context(), "/", inspect.ListOptions{})
		assert.ErrorContains(s, err, "has ended its goroutine")
	})
}

// TestWatchTellsOfRequests checks that a designation and a request show at once.
func TestWatchTellsOfRequests(t *testing.T) {
	bubble(t, inspect.Options{}, func(s *stage) {
		e := must.Get(elector.New(elector.Config{Backend: s.service, Strategy: ranked.Strategy{}, Election: path, ID: "deaf"}))(s)
		defer func() { assert.NoError(s, e.Close(context.Background())) }()
		term := must.Get(e.Campaign(s.Context()))(s)
		l := s.watch(inspect.WatchOptions{})
		synctest.Wait()
		d := inspect.Designation{ID: "other", By: "anna"}
		require.NoError(s, s.in.Designate(s.Context(), path, d))
		time.Sleep(time.Second)
		assert.Equal(s, &d, l.last().Designated)
		must.Get(s.in.Ask(s.Context(), path, elector.Request{By: "anna"}))(s)
		synctest.Wait()
		require.NotNil(s, l.last().Leader)
		assert.Equal(s, &elector.Request{By: "anna"}, l.last().Leader.Asked)
		require.NoError(s, term.Proclaim(s.Context(), []byte("new")))
		synctest.Wait()
		assert.Equal(s, "new", string(l.last().Leader.Value))
	})
}

func TestWatchEnds(t *testing.T) {
	bubble(t, inspect.Options{}, func(s *stage) {
		s.stand(fair.Strategy{}, "7")
		ctx, cancel := context.WithCancel(s.Context())
		defer cancel()
		var err error
		for _, err = range s.in.Watch(ctx, path, inspect.WatchOptions{}) {
			cancel()
		}
		require.ErrorIs(s, err, context.Canceled)
		for _, err = range s.in.Watch(s.Context(), "no/path", inspect.WatchOptions{Every: time.Millisecond}) {
		}
		require.ErrorIs(s, err, elector.ErrConfig)
		assert.ErrorContains(s, err, "relative")
		assert.ErrorContains(s, err, "Every 1ms")
		for range s.in.Watch(s.Context(), path, inspect.WatchOptions{Candidates: true}) {
			break
		}
		for _, err = range s.in.Watch(s.Context(), path, inspect.WatchOptions{}) {
			require.NoError(s, s.in.Close(s.Context()), "also amid a watch")
		}
		require.ErrorIs(s, err, elector.ErrClosed)
		for _, err = range s.in.Watch(s.Context(), path, inspect.WatchOptions{}) {
		}
		require.ErrorIs(s, err, elector.ErrClosed)

		denied := s.service.Client("stranger")
		defer denied.Deny()()
		in := inspector(s.T, denied, inspect.Options{})
		for _, err = range in.Watch(s.Context(), path, inspect.WatchOptions{}) {
		}
		require.ErrorIs(s, err, backend.ErrDenied)
	})
}

func TestWatchKafkaAtTheRoot(t *testing.T) {
	bubble(t, inspect.Options{}, func(s *stage) {
		l := watch(s.T, s.in, "/", inspect.WatchOptions{Candidates: true})
		synctest.Wait()
		one := run(s.T, s.service.Client("7"), kafka.Strategy{}, "/", "7")
		time.Sleep(time.Second)
		run(s.T, s.service.Client("8"), kafka.Strategy{}, "/", "8")
		time.Sleep(5 * time.Second)
		one()
		time.Sleep(5 * time.Second)
		assert.Equal(s, "8", l.last().Leader.ID)
		assert.Equal(s, []string{"8"}, ids(l.last()))
	})
}
