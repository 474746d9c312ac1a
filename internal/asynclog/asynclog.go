// Package asynclog has log records handled beside what logs them: a handler that is slow, or never
// returns, such as one that writes to a pipe that nobody reads, delays nothing but the log.
package asynclog

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"
)

// Most is how many records wait for their handler at most. Later ones are dropped.
const Most = 4096

// LastWords is how long a Close, which has done all else, waits for what was logged. A log that works takes
// microseconds.
const LastWords = 100 * time.Millisecond

// New returns a logger whose records l's handler handles on a goroutine of their own, in the order in
// which they were logged. Logging to it waits for nothing. When Most records wait, further ones are
// dropped, and a record says how many once the handler goes on.
//
// Of a handler only Handle may block. For l nil, the records go nowhere. A logger of New's is returned
// as it is.
func New(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	if h := l.Handler(); h == slog.DiscardHandler {
		return l
	} else if _, ok := h.(*handler); ok {
		return l
	}
	return slog.New(&handler{to: l.Handler(), queue: new(queue)})
}

// Flush waits until all that was logged so far has been handled, for d at most, or until ctx ends, and
// tells whether it has. l is a logger of New's, or derived from one.
func Flush(ctx context.Context, l *slog.Logger, d time.Duration) bool {
	h, ok := l.Handler().(*handler)
	if !ok {
		return true
	}
	handled := make(chan struct{})
	return h.queue.add(job{h.to, func() { close(handled) }}) && within(ctx, d, handled)
}

// Print writes a text to w, and waits for that, for d at most. It tells whether it was written.
func Print(w io.Writer, d time.Duration, text string) bool {
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = io.WriteString(w, text) // there is nobody to tell
	}()
	return within(context.Background(), d, written)
}

func within(ctx context.Context, d time.Duration, done <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	case <-ctx.Done():
		return false
	}
}

type handler struct {
	to    slog.Handler
	queue *queue // of all that are derived from one of New's
}

func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.to.Enabled(ctx, level)
}

func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	r = r.Clone()
	h.queue.add(job{h.to, func() { _ = h.to.Handle(ctx, r) }}) // there is nobody to tell
	return nil
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{to: h.to.WithAttrs(attrs), queue: h.queue}
}

func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{to: h.to.WithGroup(name), queue: h.queue}
}

// A job is a record to be handled.
type job struct {
	to slog.Handler
	do func()
}

// A queue has a goroutine while there are jobs.
type queue struct {
	mu      sync.Mutex
	jobs    []job
	running bool
	dropped int
}

// add appends a job, if there is room, and tells whether there was.
func (q *queue) add(j job) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.jobs) >= Most {
		q.dropped++
		return false
	}
	q.jobs = append(q.jobs, j)
	if !q.running {
		q.running = true
		go q.run()
	}
	return true
}

// run does the jobs until there are none.
func (q *queue) run() {
	for {
		j, dropped, ok := q.next()
		if !ok {
			return
		}
		q.do(j, dropped)
	}
}

func (q *queue) next() (j job, dropped int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.jobs) == 0 {
		q.jobs, q.running = nil, false
		return job{}, 0, false
	}
	j, q.jobs = q.jobs[0], q.jobs[1:]
	if len(q.jobs) == 0 { // those that were dropped came after all the others
		dropped, q.dropped = q.dropped, 0
	}
	return j, dropped, true
}

// do does a job. A handler may end its goroutine, as a test's FailNow does: another one goes on.
func (q *queue) do(j job, dropped int) {
	returned := false
	defer func() {
		if !returned {
			go q.run()
		}
	}()
	j.do()
	if dropped > 0 {
		r := slog.NewRecord(time.Now(), slog.LevelWarn, "log records were dropped: the log's handler is too slow", 0)
		r.AddAttrs(slog.Int("dropped", dropped))
		_ = j.to.Handle(context.Background(), r)
	}
	returned = true
}
