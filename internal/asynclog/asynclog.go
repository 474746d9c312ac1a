// Package asynclog handles log records in the background: a handler that is slow or never returns, such as
// one that writes to a pipe that nobody reads, delays only the log.
package asynclog

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"
)

// Most is the maximum number of records that wait for their handler. Later ones are dropped.
const Most = 4096

// LastWords is how long Close waits for the log after all else is done. A working log needs microseconds.
const LastWords = 100 * time.Millisecond

// AtExit is how long a process that ends waits for its log, and for its output to standard error, which
// perhaps nobody reads.
const AtExit = time.Second

// New returns a logger that passes its records to l's handler on a separate goroutine, in the order in
// which they were logged. Logging to it never blocks. While Most records wait, further ones are dropped,
// and a record reports their number once the handler continues.
//
// Only the handler's Enabled is called synchronously; it must not block. If l is nil, the records are
// discarded. If New returned l or l is derived from such a logger, New returns it as it is.
func New(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	if h := l.Handler(); h == slog.DiscardHandler {
		return l
	} else if _, ok := h.(*handler); ok {
		return l
	}
	return slog.New(&handler{queue: new(queue), base: l.Handler(), to: l.Handler()})
}

// Flush waits until all records logged so far have been handled, until d has passed or until ctx ends, and
// reports whether they have been handled. l is a logger that New returned, or derived from one.
func Flush(ctx context.Context, l *slog.Logger, d time.Duration) bool {
	h, ok := l.Handler().(*handler)
	if !ok {
		return true
	}
	handled := make(chan struct{})
	h.queue.add(job{of: h, handled: handled})
	return within(ctx, d, handled)
}

// Print writes a text to w and waits for that for d at most. It reports whether the text was written.
func Print(w io.Writer, d time.Duration, text string) bool {
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = io.WriteString(w, text) // there is nobody to report an error to
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

// A handler passes records on. The queue's goroutine applies the arguments of With, too: the real handler
// may guard them with the lock that it holds while it writes.
type handler struct {
	queue *queue // shared by all handlers derived from one
	base  slog.Handler
	to    slog.Handler        // base with the arguments of With applied; nil until first needed
	make  func() slog.Handler // returns to
}

func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.base.Enabled(ctx, level)
}

func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	r = r.Clone()
	h.queue.add(job{of: h, record: func() { _ = h.made().Handle(ctx, r) }}) // there is nobody to report an error to
	return nil
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.derive(func(to slog.Handler) slog.Handler { return to.WithAttrs(attrs) })
}

func (h *handler) WithGroup(name string) slog.Handler {
	return h.derive(func(to slog.Handler) slog.Handler { return to.WithGroup(name) })
}

func (h *handler) derive(with func(slog.Handler) slog.Handler) slog.Handler {
	return &handler{queue: h.queue, base: h.base, make: func() slog.Handler { return with(h.made()) }}
}

// made returns the real handler. Only the queue's goroutine calls it.
func (h *handler) made() slog.Handler {
	if h.to == nil {
		h.to = h.make()
	}
	return h.to
}

// A job is a record to handle, or a channel to close when all records before it have been handled.
type job struct {
	of      *handler
	record  func()
	handled chan<- struct{}
}

// A queue has a goroutine while it has jobs.
type queue struct {
	mu      sync.Mutex
	jobs    []job
	running bool
	dropped int
}

// add appends a job, if there is room. There is always room for a job of Flush.
func (q *queue) add(j job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.jobs) >= Most && j.record != nil {
		q.dropped++
		return
	}
	q.jobs = append(q.jobs, j)
	if !q.running {
		q.running = true
		go q.run()
	}
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

// next returns the next job and how many dropped records to report after it. It reports them once the
// handler has caught up, or when Most records were dropped.
func (q *queue) next() (j job, dropped int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.jobs) == 0 {
		q.jobs, q.running = nil, false
		return job{}, 0, false
	}
	j, q.jobs = q.jobs[0], q.jobs[1:]
	if len(q.jobs) == 0 || q.dropped >= Most {
		dropped, q.dropped = q.dropped, 0
	}
	return j, dropped, true
}

// do does a job. A handler may end its goroutine, as a test's FailNow does: then do starts a new one.
func (q *queue) do(j job, dropped int) {
	returned := false
	defer func() {
		if !returned {
			q.mu.Lock()
			q.dropped += dropped // not reported
			q.mu.Unlock()
			go q.run()
		}
	}()
	if j.record != nil {
		j.record()
	}
	if dropped > 0 && j.of.base.Enabled(context.Background(), slog.LevelWarn) {
		r := slog.NewRecord(time.Now(), slog.LevelWarn, "log records were dropped: the log's handler is too slow", 0)
		r.AddAttrs(slog.Int("dropped", dropped))
		_ = j.of.made().Handle(context.Background(), r)
	}
	returned = true
	if j.handled != nil {
		close(j.handled)
	}
}
