package electorcontrollerruntime

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/election"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/strategy/fair"
)

// A replica is a process with a manager, on the memory service.
type replica struct {
	manager.Manager
	e      elector.Elector
	client *memory.Client
	stop   context.CancelFunc
	ended  chan error // what Start returned
}

func create(t *testing.T, service *memory.Service, id string, o manager.Options, runnables ...manager.Runnable) *replica {
	t.Helper()
	r := &replica{client: service.Client(id), ended: make(chan error, 1)}
	r.e = must.Get(elector.New(elector.Config{Backend: r.client, Strategy: fair.Strategy{}, Election: "/operator", ID: id}))(t)
	o.Metrics = metricsserver.Options{BindAddress: "0"}
	o.Logger = logger(t, id)
	r.Manager = must.Get(NewManager(&rest.Config{Host: "http://127.0.0.1:1"}, r.e, o))(t)
	for _, runnable := range runnables {
		require.NoError(t, r.Add(runnable))
	}
	t.Cleanup(func() { assert.NoError(t, r.e.Close(context.Background())) })
	return r
}

func logger(t *testing.T, id string) logr.Logger {
	return funcr.New(func(prefix, args string) { t.Log(id, prefix, args) }, funcr.Options{})
}

// start starts a manager, and waits until it stands or leads.
func start(t *testing.T, service *memory.Service, id string, o manager.Options, runnables ...manager.Runnable) *replica {
	t.Helper()
	r := create(t, service, id, o, runnables...)
	r.run(t)
	return r
}

func (r *replica) run(t *testing.T) {
	var ctx context.Context
	ctx, r.stop = context.WithCancel(t.Context())
	go func() { r.ended <- r.Start(ctx) }()
	synctest.Wait()
	t.Cleanup(r.stop)
}

// reconciler adds a controller with one object to reconcile, and returns when the ctx of the reconciliation ends.
func reconciler(t *testing.T, r *replica) <-chan time.Time {
	t.Helper()
	ended := make(chan time.Time, 1)
	c := must.Get(controller.New("test", r, controller.Options{
		Reconciler: reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
			assert.True(t, r.e.Term().Valid())
			<-ctx.Done()
			ended <- time.Now()
			return reconcile.Result{}, nil
		}),
		SkipNameValidation: new(true),
	}))(t)
	require.NoError(t, c.Watch(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		queue.Add(reconcile.Request{})
		return nil
	})))
	return ended
}

// A worker is a leader runnable. No two workers of a crew may have a ctx that lives at the same time.
type worker struct {
	crew         *atomic.Int32
	cleanup      time.Duration // how long it continues after its ctx has ended
	err          error         // what it returns
	began, ended time.Time     // of its ctx
	cause        error
	returned     atomic.Bool
}

func (w *worker) Start(ctx context.Context) error {
	w.began = time.Now()
	if n := w.crew.Add(1); n != 1 {
		panic("two lead")
	}
	<-ctx.Done()
	w.crew.Add(-1)
	w.ended, w.cause = time.Now(), context.Cause(ctx)
	time.Sleep(w.cleanup)
	w.returned.Store(true)
	return w.err
}

// Everywhere runs in each replica.
type everywhere struct {
	running atomic.Bool
	cleanup time.Duration
}

func (*everywhere) NeedLeaderElection() bool { return false }

func (r *everywhere) Start(ctx context.Context) error {
	r.running.Store(true)
	<-ctx.Done()
	time.Sleep(r.cleanup)
	r.running.Store(false)
	return nil
}

func bubble(t *testing.T, f func(t *testing.T, service *memory.Service, crew *atomic.Int32)) {
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(2 * time.Hour) }) // what an exit of the process would end ends by itself
		f(t, memory.New(memory.Options{}), new(atomic.Int32))
	})
}

// When the term ends, the ctx of each leader runnable ends, and Start returns, at the same instant; the
// successor begins at the same instant as its term does.
func TestLoss(t *testing.T) {
	bubble(t, func(t *testing.T, service *memory.Service, crew *atomic.Int32) {
		w, next := &worker{crew: crew}, &worker{crew: crew}
		var here, there everywhere
		a := create(t, service, "a", manager.Options{}, w, &here)
		reconciled := reconciler(t, a)
		a.run(t)
		b := start(t, service, "b", manager.Options{}, next, &there)
		assert.True(t, here.running.Load())
		assert.True(t, there.running.Load(), "what needs no leader runs in each replica")
		term := a.e.Term()
		require.NotNil(t, term)
		time.Sleep(3 * retryPeriod)
		synctest.Wait()
		assert.True(t, term.Valid())
		assert.Zero(t, next.began)

		a.client.Suspend()
		<-term.Context().Done()
		over := time.Now()
		err := <-a.ended
		assert.ErrorIs(t, err, elector.ErrSessionLost)
		assert.ErrorContains(t, err, "the process must exit")
		assert.Zero(t, time.Since(over))
		synctest.Wait()
		assert.Equal(t, over, w.ended)
		assert.ErrorIs(t, w.cause, elector.ErrSessionLost)
		assert.Equal(t, over, <-reconciled)

		time.Sleep(time.Minute)
		synctest.Wait()
		assert.NotNil(t, b.e.Term())
		rest := next.began.Sub(over)
		assert.GreaterOrEqual(t, rest, time.Second, "the margin of memory at its timeout of 10 s")
		a.client.Resume()
		time.Sleep(time.Minute)
		assert.Equal(t, elector.RoleIdle, a.e.Status().Role, "a manager leads once")
		b.stop()
		assert.NoError(t, <-b.ended)
	})
}

// Start returns at the loss even if a runnable ignores its ctx while others return an error, and while the manager
// stops and waits for one that needs no leader.
func TestLossEndsWithoutWaiting(t *testing.T) {
	for _, name := range []string{"at work", "while it stops"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, service *memory.Service, crew *atomic.Int32) {
				w := &worker{crew: crew, err: context.Canceled}
				deaf := manager.RunnableFunc(func(context.Context) error { time.Sleep(time.Hour); return nil })
				slow := &everywhere{cleanup: 20 * time.Second} // the manager waits for it before it stops w
				a := start(t, service, "a", manager.Options{}, w, deaf, slow)
				term := a.e.Term()
				if name != "at work" {
					a.stop()
				}
				synctest.Wait()
				assert.Zero(t, w.ended)
				a.client.Expire()
				<-term.Context().Done()
				over := time.Now()
				assert.ErrorIs(t, <-a.ended, elector.ErrSessionLost)
				synctest.Wait()
				assert.Equal(t, over, w.ended)
				assert.Equal(t, over, time.Now())
			})
		})
	}
}

// The seat is released when all runnables have returned, and at once after that.
func TestReleaseAfterWork(t *testing.T) {
	bubble(t, func(t *testing.T, service *memory.Service, crew *atomic.Int32) {
		w, next := &worker{crew: crew, cleanup: 25 * time.Second}, &worker{crew: crew}
		a := start(t, service, "a", manager.Options{LeaderElectionReleaseOnCancel: true}, w)
		b := start(t, service, "b", manager.Options{}, next)
		time.Sleep(time.Minute)
		stopped := time.Now()
		a.stop()
		assert.NoError(t, <-a.ended)
		assert.True(t, w.returned.Load())
		synctest.Wait()
		assert.Equal(t, stopped.Add(w.cleanup), next.began)
		b.stop()
		assert.NoError(t, <-b.ended)
	})
}

// A runnable that does not return within GracefulShutdownTimeout keeps the seat: Start fails without a release.
func TestGraceIsOver(t *testing.T) {
	bubble(t, func(t *testing.T, service *memory.Service, crew *atomic.Int32) {
		w, next := &worker{crew: crew, cleanup: time.Minute}, &worker{crew: crew}
		a := start(t, service, "a", manager.Options{GracefulShutdownTimeout: new(5 * time.Second)}, w)
		b := start(t, service, "b", manager.Options{}, next)
		stopped := time.Now()
		a.stop()
		err := <-a.ended
		assert.ErrorContains(t, err, "within grace period of 5s")
		assert.ErrorContains(t, err, "the seat is kept, and the process must exit")
		assert.Equal(t, 5*time.Second, time.Since(stopped))
		time.Sleep(50 * time.Second)
		synctest.Wait()
		assert.Zero(t, next.began)
		require.NoError(t, a.e.Close(t.Context())) // in a process, its exit
		synctest.Wait()
		assert.NotZero(t, next.began)
		b.stop()
		assert.NoError(t, <-b.ended)
	})
}

// A GracefulShutdownTimeout of 0 waits for nothing, so a leader's end is no proof that its work has ended.
func TestNoGrace(t *testing.T) {
	bubble(t, func(t *testing.T, service *memory.Service, crew *atomic.Int32) {
		o := manager.Options{GracefulShutdownTimeout: new(time.Duration)}
		a := start(t, service, "a", o, &worker{crew: crew})
		b := start(t, service, "b", o, &worker{crew: crew})
		b.stop()
		assert.NoError(t, <-b.ended, "it does not lead")
		a.stop()
		assert.ErrorContains(t, <-a.ended, "the seat is kept")
		assert.NotNil(t, a.e.Term())
	})
}

// A leader that is asked to go makes way for its heir, stops, and says why.
func TestAsked(t *testing.T) {
	bubble(t, func(t *testing.T, service *memory.Service, crew *atomic.Int32) {
		workers := make([]*worker, 3)
		var replicas []*replica
		for i, id := range []string{"a", "b", "c"} {
			workers[i] = &worker{crew: crew, cleanup: time.Second}
			replicas = append(replicas, start(t, service, id, manager.Options{}, workers[i]))
		}
		must.Get(election.Ask(t.Context(), service, fair.Strategy{}, "/operator", election.Request{By: "anna", To: "c"}))(t)
		err := <-replicas[0].ended
		assert.ErrorIs(t, err, elector.ErrAsked)
		assert.ErrorContains(t, err, "anna")
		assert.True(t, workers[0].returned.Load())
		synctest.Wait()
		assert.NotNil(t, replicas[2].e.Term())
		assert.Zero(t, workers[1].began)
		for _, r := range replicas[1:] {
			r.stop()
			assert.NoError(t, <-r.ended)
		}
	})
}

// A candidate enters the election when its manager's caches are ready.
func TestCachesFirst(t *testing.T) {
	bubble(t, func(t *testing.T, service *memory.Service, crew *atomic.Int32) {
		a := start(t, service, "a", manager.Options{NewCache: func(cfg *rest.Config, o cache.Options) (cache.Cache, error) {
			c, err := cache.New(cfg, o)
			return slowCache{c}, err
		}}, &worker{crew: crew})
		assert.Equal(t, elector.RoleIdle, a.e.Status().Role)
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, elector.RoleLeading, a.e.Status().Role)
		a.stop()
		assert.NoError(t, <-a.ended)
	})
}

type slowCache struct{ cache.Cache }

func (slowCache) WaitForCacheSync(context.Context) bool {
	time.Sleep(time.Minute)
	return true
}

// A candidate withdraws when its manager begins to stop, and not when it has stopped.
func TestStoppingReplicaIsNotElected(t *testing.T) {
	bubble(t, func(t *testing.T, service *memory.Service, crew *atomic.Int32) {
		next := &worker{crew: crew}
		a := start(t, service, "a", manager.Options{})
		b := start(t, service, "b", manager.Options{}, &worker{crew: crew}, &everywhere{cleanup: 20 * time.Second})
		c := start(t, service, "c", manager.Options{}, next)
		b.stop()
		time.Sleep(time.Second)
		a.stop()
		assert.NoError(t, <-a.ended)
		synctest.Wait()
		assert.Equal(t, time.Now(), next.began)
		assert.NoError(t, <-b.ended)
		c.stop()
		assert.NoError(t, <-c.ended)
	})
}

// A manager whose runnable fails releases the seat when the others have returned. One that cannot stand says so.
func TestFailure(t *testing.T) {
	bubble(t, func(t *testing.T, service *memory.Service, crew *atomic.Int32) {
		failed := errors.New("failed")
		w, next := &worker{crew: crew, cleanup: 5 * time.Second}, &worker{crew: crew}
		a := start(t, service, "a", manager.Options{}, w, manager.RunnableFunc(func(context.Context) error {
			time.Sleep(time.Second)
			return failed
		}))
		b := start(t, service, "b", manager.Options{}, next)
		assert.ErrorIs(t, <-a.ended, failed)
		synctest.Wait()
		assert.Equal(t, w.ended.Add(w.cleanup), next.began)
		b.stop()
		assert.NoError(t, <-b.ended)

		c := create(t, service, "c", manager.Options{})
		require.NoError(t, c.e.Close(t.Context()))
		assert.ErrorIs(t, c.Start(t.Context()), elector.ErrClosed)
	})
}

// The package's comment shows the other way, without the adapter.
func TestManagerInsideRun(t *testing.T) {
	bubble(t, func(t *testing.T, service *memory.Service, crew *atomic.Int32) {
		workers := [2]*worker{{crew: crew, cleanup: time.Minute}, {crew: crew}}
		var stop [2]context.CancelFunc
		var ended [2]chan error
		for i, id := range []string{"a", "b"} {
			e := must.Get(elector.New(elector.Config{Backend: service, Strategy: fair.Strategy{}, Election: "/operator", ID: id}))(t)
			mgr := must.Get(manager.New(&rest.Config{Host: "http://127.0.0.1:1"}, manager.Options{
				LeaderElection: false, GracefulShutdownTimeout: new(time.Duration(-1)), Metrics: metricsserver.Options{BindAddress: "0"},
				Logger: logger(t, id),
			}))(t)
			require.NoError(t, mgr.Add(workers[i]))
			var ctx context.Context
			ctx, stop[i] = context.WithCancel(t.Context())
			ended[i] = make(chan error, 1)
			go func() {
				err := elector.Run(ctx, e, func(ctx context.Context, _ *elector.Term) error {
					return errors.Join(mgr.Start(ctx), elector.ErrStop) // a manager starts once
				})
				assert.NoError(t, e.Close(context.Background()))
				ended[i] <- err
			}()
			synctest.Wait()
		}
		assert.Zero(t, workers[1].began)
		stop[0]()
		assert.ErrorIs(t, <-ended[0], elector.ErrStop)
		synctest.Wait()
		assert.Equal(t, workers[0].ended.Add(time.Minute), workers[1].began)
		stop[1]()
		<-ended[1]
	})
}

// The user's BaseContext remains the base of all.
func TestBaseContext(t *testing.T) {
	type key struct{}
	base, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "the user's"))
	ctx := newLock().baseContext(func() context.Context { return base })()
	assert.Equal(t, "the user's", ctx.Value(key{}))
	assert.NoError(t, ctx.Err())
	cancel()
	assert.Error(t, ctx.Err())
}

// A term that ends before the manager has taken it is no loss: the candidate stands again.
func TestEndBeforeTheManagerLeads(t *testing.T) {
	l := newLock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.NoError(t, l.lead(ctx, elector.NewTerm(elector.TermConfig{Token: 1, Context: ctx}), nil, nil))
	assert.NoError(t, l.lost.Err())
}

// The lock asks the clock, as after a pause, when no timer has run yet: client-go's election does not begin to
// lead, though the term's ctx lives.
func TestLockAsksTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var over atomic.Bool
		term := elector.NewTerm(elector.TermConfig{Token: 1, Context: t.Context(), Valid: func() bool { return !over.Load() }})
		l := newLock()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- l.lead(ctx, term, func(error) {}, ctx.Done()) }()
		me := resourcelock.LeaderElectionRecord{HolderIdentity: l.Identity()}
		assert.Error(t, l.Create(ctx, me), "before a term")

		assert.Equal(t, l.Identity(), must.First(l.Get(ctx))(t).HolderIdentity)
		assert.NoError(t, l.Create(ctx, me))
		assert.NoError(t, l.Update(ctx, me))
		over.Store(true) // between two calls
		assert.Error(t, l.Create(ctx, me))
		assert.Error(t, l.Update(ctx, me))
		assert.NotEqual(t, l.Identity(), must.First(l.Get(ctx))(t).HolderIdentity)
		assert.NoError(t, l.Update(ctx, resourcelock.LeaderElectionRecord{}), "client-go releases what it has, and that does nothing")
		assert.NoError(t, l.lost.Err())
		cancel()
		assert.NoError(t, <-ended)
	})
}

// When the manager stops, Get returns, and says nothing else than before.
func TestGetEndsWithItsContext(t *testing.T) {
	l := newLock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.NotEqual(t, l.Identity(), must.First(l.Get(ctx))(t).HolderIdentity)
}
