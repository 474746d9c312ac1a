package electorgocron_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	electorgocron "github.com/elector-go/elector/adapter/gocron"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/election"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/strategy/fair"
)

// A candidate is a process with a scheduler of jobs, on the memory service.
type candidate struct {
	electorgocron.Elector
	e      elector.Elector
	client *memory.Client
	s      gocron.Scheduler
	stop   context.CancelFunc
	ended  chan error // what Run returned
}

func start(t *testing.T, service *memory.Service, id string) *candidate {
	t.Helper()
	p := &candidate{client: service.Client(id), ended: make(chan error, 1)}
	p.e = must.Get(elector.New(elector.Config{Backend: p.client, Strategy: fair.Strategy{}, Election: "/jobs", ID: id}))(t)
	p.s = must.Get(gocron.NewScheduler(gocron.WithDistributedElector(p)))(t)
	p.s.Start()
	var ctx context.Context
	ctx, p.stop = context.WithCancel(t.Context())
	go func() { p.ended <- elector.Run(ctx, p.e, p.Lead) }()
	synctest.Wait()
	t.Cleanup(func() {
		p.stop()
		<-p.ended
		assert.NoError(t, errors.Join(p.s.Shutdown(), p.e.Close(context.Background())))
	})
	return p
}

// every runs a task once a second, one run at a time.
func (p *candidate) every(t *testing.T, task gocron.Task) {
	t.Helper()
	must.Get(p.s.NewJob(gocron.DurationJob(time.Second), task, gocron.WithSingletonMode(gocron.LimitModeReschedule)))(t)
}

// Jobs run in the process that leads, even after it has lost its session.
func TestJobsFollowTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		a, b := start(t, service, "a"), start(t, service, "b")
		var ran [2]atomic.Int32
		for i, p := range []*candidate{a, b} {
			p.every(t, p.Task(func(_ context.Context, term *elector.Term) error {
				assert.True(t, term.Valid())
				ran[i].Add(1)
				return nil
			}))
		}
		assert.NoError(t, a.IsLeader(t.Context()))
		assert.ErrorIs(t, b.IsLeader(t.Context()), electorgocron.ErrNotLeader)
		time.Sleep(time.Minute)
		assert.InDelta(t, 60, ran[0].Load(), 2)
		assert.Zero(t, ran[1].Load())

		a.client.Suspend()
		time.Sleep(time.Minute)
		assert.ErrorIs(t, a.IsLeader(t.Context()), electorgocron.ErrNotLeader)
		assert.NoError(t, b.IsLeader(t.Context()))
		before := ran[0].Load()
		time.Sleep(time.Minute)
		assert.Equal(t, before, ran[0].Load(), "out of touch for longer than its window, it starts none")
		assert.Greater(t, ran[1].Load(), int32(60))
		a.client.Resume()
	})
}

// IsLeader checks the clock: it fails at the end of the window, even if nothing has run that ends the
// term's ctx.
func TestIsLeaderAsksTheClock(t *testing.T) {
	var g electorgocron.Elector
	assert.ErrorIs(t, g.IsLeader(t.Context()), electorgocron.ErrNotLeader)
	synctest.Test(t, func(t *testing.T) {
		valid := true
		term := elector.NewTerm(elector.TermConfig{Token: 1, Context: t.Context(), Valid: func() bool { return valid }})
		led := make(chan error)
		ctx, end := context.WithCancel(t.Context())
		go func() { led <- g.Lead(ctx, term) }()
		synctest.Wait()
		assert.NoError(t, g.IsLeader(t.Context()))
		valid = false
		assert.ErrorIs(t, g.IsLeader(t.Context()), electorgocron.ErrNotLeader)
		valid = true
		end()
		assert.NoError(t, <-led)
		assert.ErrorIs(t, g.IsLeader(t.Context()), electorgocron.ErrNotLeader, "its ctx has ended, though the term holds")
	})
}

// A leader that is asked to go stops its job, and the next candidate leads only when the job has returned.
func TestSeatWaitsForTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		a, b := start(t, service, "a"), start(t, service, "b")
		told := make(chan error, 1)
		a.every(t, a.Task(func(ctx context.Context, _ *elector.Term) error {
			<-ctx.Done()
			told <- context.Cause(ctx)
			time.Sleep(5 * time.Second) // it cleans up
			assert.ErrorIs(t, b.IsLeader(ctx), electorgocron.ErrNotLeader)
			return nil
		}))
		time.Sleep(10 * time.Second)
		must.Get(election.Ask(t.Context(), service, fair.Strategy{}, "/jobs", election.Request{}))(t)
		assert.ErrorIs(t, <-told, elector.ErrAsked)
		assert.ErrorIs(t, a.IsLeader(t.Context()), electorgocron.ErrNotLeader, "no other job begins meanwhile")
		time.Sleep(10 * time.Second)
		assert.NoError(t, b.IsLeader(t.Context()))
	})
}

// A job that had to wait after gocron's check does not begin once the term is over, and gocron can end a
// job, too.
func TestTaskAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		p := start(t, service, "a")
		outcome := make(chan error, 1)
		waits := make(chan struct{})
		_, err := p.s.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()),
			p.Task(func(context.Context, *elector.Term) error { t.Error("it has begun"); return nil }),
			gocron.WithEventListeners(
				gocron.BeforeJobRuns(func(_ uuid.UUID, _ string) { <-waits }), // after gocron's check
				gocron.AfterJobRunsWithError(func(_ uuid.UUID, _ string, err error) { outcome <- err }),
			))
		require.NoError(t, err)
		synctest.Wait()
		p.client.Suspend()
		time.Sleep(time.Minute)
		close(waits)
		assert.ErrorIs(t, <-outcome, electorgocron.ErrNotLeader)
		p.client.Resume()
		time.Sleep(time.Minute)

		began, ended := make(chan struct{}), make(chan error, 1)
		job, err := p.s.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), p.Task(func(ctx context.Context, term *elector.Term) error {
			close(began)
			<-ctx.Done()
			assert.True(t, term.Valid())
			ended <- ctx.Err()
			return nil
		}))
		require.NoError(t, err)
		<-began
		require.NoError(t, p.s.RemoveJob(job.ID()))
		assert.ErrorIs(t, <-ended, context.Canceled)
	})
}
