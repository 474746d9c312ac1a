package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/strategy/fair"
)

// A ledger is what the workers write to, outside the service: it keeps the highest token of each task,
// and refuses all that are lower.
type ledger struct {
	sync.Mutex
	tokens  map[string]uint64
	refused int
	active  map[string]*backend.Session // whose session lives
	twice   []string
}

func newLedger() *ledger {
	return &ledger{tokens: make(map[string]uint64), active: make(map[string]*backend.Session)}
}

var errFenced = errors.New("fenced")

func (l *ledger) write(j Job) error {
	l.Lock()
	defer l.Unlock()
	if j.Token < l.tokens[j.Task] {
		l.refused++
		return errFenced
	}
	l.tokens[j.Task] = j.Token
	return nil
}

// begin notes that the worker of this session has the task, and whether another one has it that lives.
func (l *ledger) begin(s *backend.Session, j Job) (end func()) {
	l.Lock()
	defer l.Unlock()
	if by := l.active[j.Task]; by != nil && by.State() != backend.Lost {
		l.twice = append(l.twice, fmt.Sprintf("%s at %v", j.Task, time.Now()))
	}
	l.active[j.Task] = s
	return func() {
		l.Lock()
		defer l.Unlock()
		if l.active[j.Task] == s {
			l.active[j.Task] = nil
		}
	}
}

// quiet is a controller that tells nobody.
func quiet(string, ...any) {}

// done returns the tasks that are marked.
func done(t *testing.T, s *backend.Session, dir string, tasks []string) (n int) {
	t.Helper()
	for _, task := range tasks {
		e, err := read(t.Context(), s, dir+"/tasks/"+task)
		require.NoError(t, err)
		var a assignment
		if json.Unmarshal(e.Value, &a) == nil && a.Done {
			n++
		}
	}
	return n
}

func tasksOf(n int) (tasks []string) {
	for i := range n {
		tasks = append(tasks, fmt.Sprint("task-", i))
	}
	return tasks
}

// TestWorkIsDone has three workers, of which one dies with a task in hand.
func TestWorkIsDone(t *testing.T) {
	onAll(t, func(t *testing.T, b backend.Backend) {
		tasks, store := tasksOf(6), newLedger()
		controller, dies := open(t, b), open(t, b)
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		defer group.Wait()
		defer cancel()
		tokens, dead := make(chan uint64, 1), make(chan struct{})
		group.Go(func() {
			defer close(dead)
			assert.ErrorIs(t, Work(ctx, dies, keyOf(t), "dies", func(ctx context.Context, j Job) error {
				assert.Equal(t, "task-0", j.Task)
				assert.NoError(t, store.write(j))
				assert.NoError(t, j.Report(ctx, 50))
				tokens <- j.Token
				<-ctx.Done()
				return ctx.Err()
			}), backend.ErrSessionLost)
		})
		finished := make(chan error, 1)
		group.Go(func() { finished <- Control(ctx, controller, nil, keyOf(t), tasks, t.Logf) })
		first := <-tokens
		_, all, err := Members(t.Context(), controller, keyOf(t))
		require.NoError(t, err)
		require.Len(t, all, 1)
		assert.Equal(t, offer{"dies", "task-0", 50}, all[0].offer, "the controller sees the progress")

		for _, name := range []string{"one", "two"} {
			s := open(t, b)
			group.Go(func() {
				_ = Work(ctx, s, keyOf(t), name, func(ctx context.Context, j Job) error {
					defer store.begin(s, j)()
					if j.Task == "task-0" {
						assert.Greater(t, j.Token, first)
					}
					return errors.Join(store.write(j), j.Report(ctx, 100))
				})
			})
		}
		isBlocked(t, b, "the controller, as one task is in hand,", finished)
		require.NoError(t, dies.Close(t.Context()))
		<-dead
		assert.NoError(t, <-finished)
		assert.Equal(t, len(tasks), done(t, controller, keyOf(t), tasks))
		assert.Empty(t, store.twice)
		assert.NoError(t, Control(ctx, controller, nil, keyOf(t), tasks, t.Logf), "nothing is left to do")
	})
}

// TestPausedWorker has a worker that is cut off, and goes on with its task when another has it.
func TestPausedWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		store, client := newLedger(), service.Client("paused")
		paused, other, controller := open(t, client), open(t, service), open(t, service)
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		defer group.Wait()
		defer cancel()
		group.Go(func() { assert.NoError(t, Control(ctx, controller, nil, "/jobs", []string{"a"}, t.Logf)) })
		late := make(chan error)
		group.Go(func() {
			err := Work(ctx, paused, "/jobs", "paused", func(ctx context.Context, j Job) error {
				client.Suspend()
				time.Sleep(time.Minute) // looks neither at ctx nor at the clock
				client.Resume()
				assert.ErrorIs(t, context.Cause(ctx), backend.ErrSessionLost)
				assert.Error(t, j.Report(t.Context(), 1))
				assert.ErrorIs(t, store.write(j), errFenced)
				return nil // and says that it is done
			})
			assert.ErrorIs(t, err, backend.ErrSessionLost)
			late <- err
		})
		synctest.Wait()
		group.Go(func() {
			_ = Work(ctx, other, "/jobs", "other", func(ctx context.Context, j Job) error {
				assert.NoError(t, store.write(j))
				<-late
				return store.write(j)
			})
		})
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		assert.Equal(t, 1, store.refused)
		assert.Equal(t, 1, done(t, controller, "/jobs", []string{"a"}))
		var a assignment
		require.NoError(t, json.Unmarshal(service.Entry("/jobs/tasks/a").Value, &a))
		assert.Equal(t, service.Listing("/jobs/workers").Keys, []string{service.Listing("/jobs/workers").Keys[0]})
		assert.True(t, a.Done)
	})
}

// intercept calls before each commit of the session that has an op of this kind.
func intercept(s *backend.Session, kind backend.OpKind, before func()) *backend.Session {
	return interceptCall(s, func(c *backend.Call) bool { return c.Kind == backend.CallCommit && memory.Kind(kind)(c.Ops) }, before)
}

func interceptCall(s *backend.Session, match func(*backend.Call) bool, before func()) *backend.Session {
	return s.Around(backend.Layer{Call: func(ctx context.Context, c *backend.Call, next func(context.Context) error) error {
		if match(c) {
			before()
		}
		return next(ctx)
	}})
}

// TestControllerLooksInBetween has a task given, by the controller before, or finished while the
// controller reads, at each of its first reads: then nothing is taken from a worker that lives, and no
// mark is removed.
func TestControllerLooksInBetween(t *testing.T) {
	for at, read := range []string{"the task", "the listing", "the worker"} {
		for _, event := range []string{"given", "done"} {
			if at == 2 && event == "given" {
				continue // there is no worker to read
			}
			t.Run(event+" before "+read, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					service := memory.New(memory.Options{})
					s, before, plain := open(t, service), open(t, service), open(t, service)
					ctx, cancel := context.WithCancel(t.Context())
					var group sync.WaitGroup
					defer group.Wait()
					defer cancel()
					finish, begun := make(chan bool), 0
					comes := func() {
						group.Go(func() {
							_ = Work(ctx, s, "/jobs", "one", func(ctx context.Context, j Job) error {
								begun++
								<-finish
								return nil
							})
						})
						group.Go(func() { _ = Control(ctx, before, nil, "/jobs", []string{"a"}, quiet) })
						synctest.Wait()
					}
					if event == "done" {
						comes()
					}
					reads := 0
					controller := interceptCall(plain, func(c *backend.Call) bool { return c.Kind == backend.CallGet || c.Kind == backend.CallList }, func() {
						if reads++; reads != at+1 {
							return
						}
						if event == "given" {
							comes()
						} else {
							finish <- true
							synctest.Wait()
						}
					})
					finished := make(chan error, 1)
					group.Go(func() { finished <- Control(ctx, controller, nil, "/jobs", []string{"a"}, t.Logf) })
					time.Sleep(time.Minute)
					synctest.Wait()
					require.Greater(t, reads, at)
					if event == "given" {
						finish <- true
					}
					assert.NoError(t, <-finished)
					assert.Equal(t, 1, begun)
				})
			})
		}
	}
}

// TestWorkerDiesAsItIsGivenATask has it die between the controller's look and its commit.
func TestWorkerDiesAsItIsGivenATask(t *testing.T) {
	onAll(t, func(t *testing.T, b backend.Backend) {
		dies, lives, plain := open(t, b), open(t, b), open(t, b)
		_, err := enqueue(t.Context(), dies, keyOf(t)+"/workers", encode(offer{Name: "dies"}))
		require.NoError(t, err)
		controller := intercept(plain, backend.OpCompareAndSet, sync.OnceFunc(func() {
			assert.NoError(t, dies.Close(t.Context()))
		}))
		ctx, cancel := context.WithCancel(t.Context())
		finished := make(chan error, 1)
		go func() { finished <- Control(ctx, controller, nil, keyOf(t), []string{"a"}, t.Logf) }()
		isBlocked(t, b, "the controller, as nobody lives,", finished)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = Work(ctx, lives, keyOf(t), "lives", func(context.Context, Job) error { return nil })
		}()
		assert.NoError(t, <-finished)
		cancel()
		<-ended
	})
}

// TestDeposedController has one that is replaced between its look and its commits: they are refused.
func TestDeposedController(t *testing.T) {
	for _, kind := range []backend.OpKind{backend.OpCompareAndSet, backend.OpDelete} {
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := memory.New(memory.Options{})
				seat, plain := open(t, service), open(t, service)
				made, err := seat.Commit(t.Context(), nil, backend.CreateEphemeral("/seat", nil))
				require.NoError(t, err)
				if kind == backend.OpDelete { // of a task that was given to somebody who is gone
					require.NoError(t, service.Put("/jobs/tasks/a", encode(assignment{Worker: "/jobs/workers/x", Rev: 1})))
				} else {
					_, err = enqueue(t.Context(), plain, "/jobs/workers", encode(offer{Name: "one"}))
					require.NoError(t, err)
				}
				before := ""
				old := intercept(plain, kind, sync.OnceFunc(func() {
					assert.NoError(t, seat.Close(t.Context()))
					before = service.Dump()
				}))
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // ends with the term
				defer cancel()
				err = Control(ctx, old, []backend.Condition{backend.IfExists(made[0])}, "/jobs", []string{"a"}, t.Logf)
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				assert.NotEmpty(t, before)
				assert.Equal(t, before, service.Dump(), "nothing was written")
			})
		})
	}
}

// TestWorkersAndStrangers has somebody delete and scribble.
func TestWorkersAndStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		s, controller, stranger := open(t, service), open(t, service), open(t, service)
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		defer group.Wait()
		defer cancel()
		type begun struct {
			Job
			ctx context.Context
		}
		jobs, results := make(chan begun), make(chan error)
		group.Go(func() {
			assert.ErrorIs(t, Work(ctx, s, "/jobs", "one", func(ctx context.Context, j Job) error {
				jobs <- begun{j, ctx}
				return <-results
			}), context.Canceled)
		})
		scribble := func(value string) {
			synctest.Wait()
			e := service.Entry(service.Listing("/jobs/workers").Keys[0])
			_, err := stranger.Commit(t.Context(), nil, backend.Update(e, []byte(value)))
			require.NoError(t, err)
			synctest.Wait()
		}
		for _, value := range []string{"", "{}", "[]", "\xff", `{"Task":"none"}`, `{"Task":"//"}`, `{"Task":"../x"}`} {
			scribble(value)
		}
		require.NoError(t, service.Put("/jobs/tasks/a", []byte("nonsense")))
		require.NoError(t, service.Put("/jobs/workers/notes", []byte("nonsense")))
		_, err := enqueue(t.Context(), stranger, "/jobs/workers", []byte("nonsense"))
		require.NoError(t, err)
		finished := make(chan error)
		// The entries that were scribbled at stand in the way until their worker has put others in their place.
		group.Go(func() { finished <- Control(ctx, controller, nil, "/jobs", []string{"a"}, t.Logf) })
		first := <-jobs

		service.Delete("/jobs/tasks/a")
		assert.True(t, refused(first.Report(t.Context(), 1)))
		results <- first.Report(t.Context(), 1)
		second := <-jobs
		assert.Greater(t, second.Token, first.Token)

		for _, key := range service.Listing("/jobs/workers").Keys {
			if service.Entry(key).Session == s.ID() {
				service.Delete(key)
			}
		}
		<-second.ctx.Done()
		assert.ErrorIs(t, context.Cause(second.ctx), errTaken)
		results <- second.ctx.Err()
		third := <-jobs
		assert.Greater(t, third.Token, second.Token)
		results <- nil
		assert.NoError(t, <-finished)
	})
}

// TestTaskThatCannotBeTakenBack: a stranger has put something below it. The other tasks go on.
func TestTaskThatCannotBeTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		worker, controller := open(t, service), open(t, service)
		require.NoError(t, service.Put("/jobs/tasks/a", encode(assignment{Worker: "/jobs/workers/x", Rev: 1})))
		require.NoError(t, service.Put("/jobs/tasks/a/b", nil))
		begun := make(chan string, 2)
		during(t, func(ctx context.Context) error {
			return Work(ctx, worker, "/jobs", "one", func(_ context.Context, j Job) error {
				begun <- j.Task
				return nil
			})
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		time.AfterFunc(30*time.Second, func() {
			assert.Len(t, begun, 1)
			service.Delete("/jobs/tasks/a/b")
		})
		assert.NoError(t, Control(ctx, controller, nil, "/jobs", []string{"a", "c"}, t.Logf))
		assert.Equal(t, "c", <-begun)
		assert.Equal(t, "a", <-begun)
		assert.ErrorContains(t, Control(ctx, controller, nil, "/jobs", []string{"a", "a/b"}, t.Logf), `"a/b"`)
	})
}

// TestFailureThatLooksLikeARefusal: do fails with an error of something else that is the service's, too. That is
// returned, and the task is not begun again and again.
func TestFailureThatLooksLikeARefusal(t *testing.T) {
	for _, own := range []error{backend.ErrNoEntry, backend.ErrCondition, backend.ErrConflict, backend.ErrIndeterminate} {
		synctest.Test(t, func(t *testing.T) {
			service := memory.New(memory.Options{})
			worker, controller := open(t, service), open(t, service)
			during(t, func(ctx context.Context) error {
				return Control(ctx, controller, nil, "/jobs", []string{"a"}, t.Logf)
			})
			begun := 0
			err := Work(t.Context(), worker, "/jobs", "one", func(ctx context.Context, j Job) error {
				if begun++; begun > 1 {
					return errFenced
				}
				return fmt.Errorf("do: %w", own)
			})
			assert.ErrorIs(t, err, own)
			assert.Equal(t, 1, begun)
		})
	}
}

// TestWorkWithFaults has workers and controllers that are cut off, expire, and lose replies. All is done
// in the end, and no task is in the hands of two that live.
func TestWorkWithFaults(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { workWithFaults(t, rand.New(rand.NewPCG(seed, 2))) })
		})
	}
}

func workWithFaults(t *testing.T, random *rand.Rand) {
	service := memory.New(memory.Options{DefaultTTL: 2 * time.Second, Latency: func() time.Duration { return time.Millisecond }})
	tasks, store := tasksOf(30), newLedger()
	ctx, stop := context.WithTimeout(t.Context(), time.Hour)
	defer stop()
	var clients []*memory.Client
	var group sync.WaitGroup
	begun := 0
	for i := range 6 {
		client := service.Client(fmt.Sprint("worker ", i))
		clients = append(clients, client)
		long := time.Duration(random.IntN(3000)) * time.Millisecond
		group.Go(func() {
			for ctx.Err() == nil {
				s, err := client.Open(ctx, backend.OpenOptions{})
				if err != nil {
					_ = sleep(ctx, time.Second)
					continue
				}
				_ = Work(ctx, s, "/jobs", client.Name(), func(ctx context.Context, j Job) error {
					defer store.begin(s, j)()
					store.Lock()
					begun++
					store.Unlock()
					return errors.Join(store.write(j), sleep(ctx, long), j.Report(ctx, 50), store.write(j))
				})
				_ = s.Close(context.WithoutCancel(ctx))
			}
		})
	}
	for i := range 2 {
		client := service.Client(fmt.Sprint("controller ", i))
		clients = append(clients, client)
		e, err := elector.New(elector.Config{Backend: client, Strategy: fair.New(), Election: "/seat", ID: client.Name()})
		require.NoError(t, err)
		group.Go(func() {
			err := elector.Run(ctx, e, func(ctx context.Context, term *elector.Term) error {
				return Control(ctx, term.Guard().Session, term.Guard().Conditions, "/jobs", tasks, quiet)
			})
			if ctx.Err() == nil {
				assert.NoError(t, err)
				stop()
			}
			_ = e.Close(context.WithoutCancel(ctx))
		})
	}
	for ctx.Err() == nil {
		client := clients[random.IntN(len(clients))]
		some := func(ms int) time.Duration { return time.Duration(random.IntN(ms)) * time.Millisecond }
		switch random.IntN(7) {
		case 0:
			client.Resume()
			client.Expire()
		case 1:
			client.Suspend()
			time.AfterFunc(some(4000), client.Resume)
		case 2:
			client.LoseReply(nil)
		case 3:
			client.LoseRequest(nil)
		case 4:
			client.DelayReply(nil, some(5000))
		case 5:
			client.DelayRequest(nil, some(5000))
		case 6:
			client.DelayWakeups(some(500))
		}
		_ = sleep(ctx, some(1000))
	}
	for _, client := range clients {
		client.Resume()
	}
	group.Wait()
	time.Sleep(time.Minute)
	s := open(t, service)
	assert.Equal(t, len(tasks), done(t, s, "/jobs", tasks))
	assert.Empty(t, store.twice)
	assert.Empty(t, service.Listing("/jobs/workers").Keys)
	t.Logf("%d tasks, begun %d times", len(tasks), begun)
}
