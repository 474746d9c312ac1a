// Package electorgocron runs the jobs of github.com/go-co-op/gocron in one process of many: the one that
// leads an election.
//
//	var g electorgocron.Elector
//	s, err := gocron.NewScheduler(gocron.WithDistributedElector(&g))
//	…
//	_, err = s.NewJob(gocron.DurationJob(time.Minute), g.Task(reindex)) // in every process
//	s.Start()
//	err = elector.Run(ctx, e, g.Lead)
//
// # What it guarantees
//
// gocron starts a job only while this process's term holds, as Term.Valid reports: a process that was
// paused past its trust window starts none. The ctx of a job made by Task ends when the term does, before
// anyone else can lead, and a leader that resigns releases its seat only after that job has returned.
//
// # What it does not guarantee
//
// Time passes between gocron's check and the job's first statement, and a job that has begun continues. A
// job that was not made by Task, or ignores its ctx, continues while the next leader starts its own. What
// such a job writes must be fenced, with Term.Commit or with the term's token.
//
// A run that falls between two leaders is skipped: gocron does not catch up.
package electorgocron

import (
	"context"
	"errors"
	"sync"

	"github.com/go-co-op/gocron/v2"

	"github.com/elector-go/elector"
)

// ErrNotLeader: this process does not lead, so no job may begin.
var ErrNotLeader = errors.New("electorgocron: this process does not lead")

// An Elector tells gocron's schedulers whether this process leads. The zero Elector does not lead until
// Lead is called. Its methods may be called from any goroutine. Do not copy it.
type Elector struct {
	mu     sync.Mutex
	tenure *tenure // nil while this process does not lead
}

var _ gocron.Elector = (*Elector)(nil)

// A tenure is one call of Lead.
type tenure struct {
	ctx  context.Context
	term *elector.Term
	jobs sync.WaitGroup // running jobs made by Task
}

func (t *tenure) holds() bool { return t != nil && t.ctx.Err() == nil && t.term.Valid() }

// Lead lets jobs run until ctx ends, and blocks until those made by Task have returned. It is the lead
// function of elector.Run, or a part of it.
func (g *Elector) Lead(ctx context.Context, t *elector.Term) error {
	now := &tenure{ctx: ctx, term: t}
	g.set(now)
	<-ctx.Done()
	g.set(nil) // before the wait, so that no job begins any more
	now.jobs.Wait()
	return nil
}

func (g *Elector) set(t *tenure) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tenure = t
}

// IsLeader implements gocron.Elector. It returns ErrNotLeader unless this process leads at this instant.
// It does not block.
func (g *Elector) IsLeader(context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.tenure.holds() {
		return ErrNotLeader
	}
	return nil
}

// Task returns a task for gocron.Scheduler.NewJob. The job's ctx ends with the term that it runs in, and
// with gocron's own ctx. The task checks again whether the process leads, and fails with ErrNotLeader if
// not: the job may have waited since gocron's check. t is for fenced writes.
func (g *Elector) Task(job func(ctx context.Context, t *elector.Term) error) gocron.Task {
	return gocron.NewTask(func(ctx context.Context) error {
		now, err := g.begin()
		if err != nil {
			return err
		}
		defer now.jobs.Done()
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(now.ctx, func() { cancel(context.Cause(now.ctx)) })()
		return job(ctx, now.term)
	})
}

// begin adds a job to the tenure, which then waits for it.
func (g *Elector) begin() (*tenure, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.tenure.holds() {
		return nil, ErrNotLeader
	}
	g.tenure.jobs.Add(1)
	return g.tenure, nil
}
