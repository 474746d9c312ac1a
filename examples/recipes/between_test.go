package main

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/must"
)

// A scene is a call in a session, and an event that comes in between.
type scene func(t *testing.T, svc *memory.Service) (run func(s *backend.Session), event func())

// TestInBetween plays each scene with the event before each call of the session in turn, and at the end.
// Either all others react to the event before the call continues, or after it.
func TestInBetween(t *testing.T) {
	for name, scene := range scenes {
		t.Run(name, func(t *testing.T) {
			for i, more := int64(0), true; more; i++ {
				onMemory(t, func(t *testing.T, svc *memory.Service, s *backend.Session) {
					run, event := scene(t, svc)
					var calls atomic.Int64
					var comes atomic.Bool
					running := begin(func() (any, error) {
						run(around(s, func(_ *backend.Call, next func() error) error {
							if calls.Add(1) == i/2+1 && comes.CompareAndSwap(false, true) {
								event()
								time.Sleep(time.Duration(i % 2)) // a nanosecond is enough in a bubble
							}
							return next()
						}))
						return nil, nil
					})
					time.Sleep(time.Second + time.Microsecond) // nothing happens at any other time
					synctest.Wait()
					if comes.CompareAndSwap(false, true) {
						more = false
						event()
					}
					running.wait(t)
				})
			}
		})
	}
}

var scenes = map[string]scene{
	"the writer goes as a reader looks": func(t *testing.T, svc *memory.Service) (func(*backend.Session), func()) {
		l := SharedLock{"/shared"}
		writes := must.Get(l.Write(t.Context(), open(t, svc), ""))(t)
		return func(s *backend.Session) {
			enqueued := 0
			must.Get(l.Read(t.Context(), around(s, func(c *backend.Call, next func() error) error {
				if commits(backend.OpEnqueue)(c) {
					enqueued++
				}
				return next()
			}), ""))(t)
			assert.Equal(t, 1, enqueued, "it keeps its place in the line")
			assert.Error(t, writes.Err())
		}, func() { assert.NoError(t, writes.Release(t.Context())) }
	},
	// All begin, or none.
	"one goes as another enters": func(t *testing.T, svc *memory.Service) (func(*backend.Session), func()) {
		d := DoubleBarrier{Dir: "/double", N: 2}
		one := begin(func() (*Inside, error) { return d.Enter(t.Context(), open(t, svc), "") })
		one.blocks(t, "one alone")
		var opened atomic.Bool
		return func(s *backend.Session) {
				in := must.Get(d.Enter(t.Context(), s, ""))(t)
				first := one.wait(t)
				assert.Equal(t, in.ready, first.ready)
				time.Sleep(time.Millisecond)
				assert.NoError(t, in.Err())
				assert.True(t, opened.Load() || first.Err() == nil)
			}, func() {
				opened.Store(svc.Entry(d.ready()).Exists())
				svc.Delete(svc.Entries("/double/line")[0].Key)
			}
	},
	"another k is agreed on as one acquires": func(t *testing.T, svc *memory.Service) (func(*backend.Session), func()) {
		return func(s *backend.Session) {
				h, err := Semaphore{"/pool", 1}.Acquire(t.Context(), s, "")
				if err == nil { // before the event
					<-h.Done()
					err = context.Cause(h)
				}
				assert.True(t, errors.Is(err, errTaken) || strings.Contains(err.Error(), `others have agreed on "2"`), "%v", err)
			}, func() {
				svc.Delete("/pool")
				must.Get(Semaphore{"/pool", 2}.Acquire(t.Context(), open(t, svc), ""))(t)
			}
	},
	// No update is lost: this is another incarnation with the same version.
	"the entry is deleted and made as one publishes": func(t *testing.T, svc *memory.Service) (func(*backend.Session), func()) {
		was := must.Get(Publish(t.Context(), open(t, svc), backend.Entry{Key: "/config"}, []byte("old")))(t)
		want := "mine"
		return func(s *backend.Session) {
				_, err := Publish(t.Context(), s, was, []byte("mine"))
				assert.Equal(t, want == "other", refused(err), "%v", err)
				assert.Equal(t, want, string(svc.Entry("/config").Value))
			}, func() {
				want = "other"
				svc.Delete("/config")
				require.NoError(t, svc.Put("/config", []byte(want)))
			}
	},
	// Somebody has put something in place of the next item, or deleted a part of the queue. No new item is lost.
	"items are there as one takes": takes(func(svc *memory.Service) {
		_ = errors.Join(svc.Put("/queue/items/3", nil), svc.Put("/queue/items/4", nil))
	}),
	"the tail is deleted as one takes":   takes(func(svc *memory.Service) { svc.Delete("/queue/tail") }),
	"the head is deleted as one takes":   takes(func(svc *memory.Service) { svc.Delete("/queue/head") }),
	"the items are deleted as one takes": takes(func(svc *memory.Service) { svc.Delete("/queue/items") }),
	"the queue is deleted as one takes":  takes(func(svc *memory.Service) { svc.Delete("/queue") }),
	// Nothing is taken from a live worker, and no mark is removed.
	"the controller before gives a task": func(t *testing.T, svc *memory.Service) (func(*backend.Session), func()) {
		var begun chan Job
		return func(s *backend.Session) {
				controls(t, s).wait(t)
				assert.Len(t, begun, 1)
			}, func() {
				var finish func()
				begun, finish = works(t, open(t, svc))
				controls(t, open(t, svc))
				time.AfterFunc(time.Minute, finish)
			}
	},
	"the worker is done as the controller looks": func(t *testing.T, svc *memory.Service) (func(*backend.Session), func()) {
		begun, finish := works(t, open(t, svc))
		controls(t, open(t, svc)).blocks(t, "the controller before")
		return func(s *backend.Session) {
			controls(t, s).wait(t)
			assert.Len(t, begun, 1)
		}, finish
	},
	"the worker dies as the controller looks": func(t *testing.T, svc *memory.Service) (func(*backend.Session), func()) {
		dies := open(t, svc)
		works(t, dies)
		return func(s *backend.Session) { controls(t, s).wait(t) }, func() {
			assert.NoError(t, dies.Close(t.Context()))
			time.AfterFunc(time.Minute, func() {
				_, finish := works(t, open(t, svc))
				finish()
			})
		}
	},
	"the controller is deposed before it gives a task": deposed(func(t *testing.T, svc *memory.Service) { works(t, open(t, svc)) }),
	"the controller is deposed before it takes one back": deposed(func(t *testing.T, svc *memory.Service) {
		require.NoError(t, svc.Put("/jobs/tasks/a", encode(assignment{Worker: "/jobs/workers/x", Rev: 1})))
	}),
}

func takes(harm func(svc *memory.Service)) scene {
	return func(t *testing.T, svc *memory.Service) (func(*backend.Session), func()) {
		q, producer := Queue{"/queue"}, open(t, svc)
		for range 3 {
			must.Get(q.Put(t.Context(), producer, nil))(t)
		}
		for range 2 {
			require.NoError(t, must.Get(q.Take(t.Context(), producer))(t).Finish(t.Context()))
		}
		return func(s *backend.Session) {
				for last := ""; last != "new"; {
					c := must.Get(q.Take(t.Context(), s))(t)
					last = string(c.Item.Value)
					err := c.Finish(t.Context())
					assert.True(t, err == nil || refused(err), "%v", err)
				}
			}, func() {
				harm(svc)
				must.Get(q.Put(t.Context(), producer, []byte("new")))(t)
			}
	}
}

// deposed replaces the controller's leader by another: from then on it writes nothing.
func deposed(before func(t *testing.T, svc *memory.Service)) scene {
	return func(t *testing.T, svc *memory.Service) (func(*backend.Session), func()) {
		seat, dump := open(t, svc), ""
		guard := must.Get(seat.Commit(t.Context(), nil, backend.CreateEphemeral("/seat", nil)))(t)
		before(t, svc)
		return func(s *backend.Session) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // ends with the term
				defer cancel()
				assert.ErrorIs(t, Control(ctx, s, allExist(guard), "/jobs", []string{"a"}, t.Logf), context.DeadlineExceeded)
				assert.Equal(t, dump, svc.Dump())
			}, func() {
				assert.NoError(t, seat.Close(t.Context()))
				dump = svc.Dump()
			}
	}
}
