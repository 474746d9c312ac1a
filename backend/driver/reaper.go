package driver

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/elector-go/elector/backend"
)

// A Reaper removes in the background what abandoned commits of a session may have left, and what a Discard
// could not remove: rule 6. It is one goroutine, which runs only while there are jobs. Make it with
// NewReaper.
type Reaper struct {
	ctx    context.Context
	start  func(func()) bool
	failed func(error)

	mu      sync.Mutex
	jobs    []*reaping
	added   Waker // woken for a new job
	running bool
}

// A reaping is one job of a Reaper.
type reaping struct {
	do    func(context.Context) error
	entry backend.Entry // what it removes, if that is all
	due   time.Time     // when to try again; zero: at once
	pause time.Duration // before the last try
}

// repeats reports whether j removes the same incarnation as another job.
func (j *reaping) repeats(o *reaping) bool {
	return j.entry.Exists() && j.entry.Key == o.entry.Key && j.entry.Rev == o.entry.Rev
}

// NewReaper returns the reaper of a session that is lost when ctx ends. start runs a function on a
// goroutine that Close waits for, or returns false once the session is over. failed is called with the
// reason for each retry.
func NewReaper(ctx context.Context, start func(func()) bool, failed func(error)) *Reaper {
	return &Reaper{ctx: ctx, start: start, failed: failed, added: NewWaker()}
}

// Reap runs a job again and again until it succeeds or the session is lost. The pauses grow from one second
// to half a minute. Reap does not block.
func (r *Reaper) Reap(job func(context.Context) error) { r.add(&reaping{do: job}) }

// ReapEntry removes an entry by drop, as Reap does. An entry is one job however often it is added: callers
// of Discard try again while it is refused.
func (r *Reaper) ReapEntry(e backend.Entry, drop func(context.Context, backend.Entry) error) {
	r.add(&reaping{entry: e, do: func(ctx context.Context) error { return drop(ctx, e) }})
}

func (r *Reaper) add(job *reaping) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.ContainsFunc(r.jobs, job.repeats) {
		return
	}
	r.jobs = append(r.jobs, job)
	r.added.Wake()
	// The entries of a lost session go by themselves.
	r.running = r.running || r.start(r.run)
}

func (r *Reaper) run() {
	const shortest, longest = time.Second, 30 * time.Second
	for {
		job, wait := r.next()
		switch {
		case job == nil:
			return
		case wait > 0:
			select {
			case <-time.After(wait):
			case <-r.added:
			case <-r.ctx.Done():
			}
			continue
		}
		err := job.do(r.ctx)
		failed := err != nil && r.ctx.Err() == nil
		if failed {
			r.failed(err)
		}
		r.mu.Lock()
		r.jobs = slices.DeleteFunc(r.jobs, func(j *reaping) bool { return j == job })
		if failed {
			job.pause = min(max(2*job.pause, shortest), longest)
			job.due = time.Now().Add(job.pause)
			r.jobs = append(r.jobs, job)
		}
		r.mu.Unlock()
	}
}

// next returns the job to do first, and how long it must wait. It returns nil when no job is left, and the
// goroutine ends.
func (r *Reaper) next() (*reaping, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.jobs) == 0 || r.ctx.Err() != nil {
		r.jobs, r.running = nil, false
		return nil, 0
	}
	first := slices.MinFunc(r.jobs, func(a, b *reaping) int { return a.due.Compare(b.due) })
	return first, time.Until(first.due)
}
