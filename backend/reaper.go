package backend

import (
	"context"
	"sync"
	"time"
)

// A Reaper removes in the background what abandoned commits of a session may have
// left: rule 6. It is one goroutine, there only while there is something to do. Make it
// with NewReaper.
type Reaper struct {
	ctx    context.Context
	start  func(func()) bool
	failed func(error)

	mu      sync.Mutex
	jobs    []func(context.Context) error
	running bool
}

// NewReaper makes the reaper of a session that is lost when ctx ends. start runs a
// function on a goroutine that Close waits for, or returns false once the session is
// over. failed is told why a job has to be tried again.
func NewReaper(ctx context.Context, start func(func()) bool, failed func(error)) *Reaper {
	return &Reaper{ctx: ctx, start: start, failed: failed}
}

// Reap has a job done, again and again until it succeeds or the session is lost. It
// does not block.
func (r *Reaper) Reap(job func(context.Context) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.jobs = append(r.jobs, job)
	// The entries of a lost session go by themselves.
	r.running = r.running || r.start(r.run)
}

func (r *Reaper) run() {
	const pause = time.Second
	for {
		r.mu.Lock()
		if len(r.jobs) == 0 || r.ctx.Err() != nil {
			r.jobs, r.running = nil, false
			r.mu.Unlock()
			return
		}
		job := r.jobs[0]
		r.jobs = r.jobs[1:]
		r.mu.Unlock()
		err := job(r.ctx)
		if err == nil || r.ctx.Err() != nil {
			continue
		}
		r.failed(err)
		r.mu.Lock()
		r.jobs = append(r.jobs, job)
		r.mu.Unlock()
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-r.ctx.Done():
			timer.Stop()
		}
	}
}
