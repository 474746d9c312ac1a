package zookeeper

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/elector-go/elector/backend"
)

// A commit's request may be done long after its link has broken, and after settle. It may wait in the
// follower's connection to the leader, which stalls. The session goes to another server: the leader
// would refuse the request now. But then the session comes back to that follower, whose connection
// holds the request first, and the session's return behind it. The leader may handle the return first,
// and then the request is done. (Seen on 3.8: the thread that reads the connection handles the return
// by itself, and queues the request.) The entry's version then makes the server refuse an Update, and
// all that checks a version. But a request that makes an ephemeral entry makes another one, which
// nobody knows of.
//
// So if a link broke during such a commit, the session looks for entries that no commit has reported:
// at once, as several attempts may have been done, and on each new link. A request that waited in a
// follower's connection is done before requests on a later link to it. (Entries that the user makes
// with the client library in the same session, under a key of a CreateEphemeral whose link has just
// broken, are removed, too.)
const (
	// lateFor is how long such a request may wait: a follower and the leader give their connection up
	// after syncLimit ticks of silence, usually ten seconds.
	lateFor = time.Minute
	// lateMost is how many traces are kept: those of the latest commits.
	lateMost = 4096
	// latePatience is how long to wait for a commit on the same key before looking for others.
	latePatience = 50 * time.Millisecond
)

// late holds the ephemeral entries that may yet be made.
type late struct {
	mu      sync.Mutex
	traces  []*trace
	back    bool // lookBack is due
	looking bool // look is running
	again   bool // look must run again when it is done

	lookedBack uint64 // the latest link on which nothing was back; only lookBack uses it
}

// A trace identifies an entry that is made late.
type trace struct {
	op    backend.Op // without its value
	nonce string
	until time.Time // guarded by late.mu
}

func (l *late) add(traces ...*trace) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.traces = append(l.traces, traces...)
	l.traces = slices.Clone(l.traces[max(0, len(l.traces)-lateMost):])
}

// all returns the traces that may still appear.
func (l *late) all() []*trace {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.traces = slices.DeleteFunc(l.traces, func(t *trace) bool { return now.After(t.until) })
	return slices.Clone(l.traces)
}

// keep keeps traces that could not be looked for, and restarts their time.
func (l *late) keep(traces ...*trace) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range traces {
		t.until = time.Now().Add(lateFor)
	}
}

// next tells whether to look again, and whether also for what is back. If not, look ends.
func (l *late) next() (again, back bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	again, back = l.again, l.back
	l.looking, l.again, l.back = again, false, false
	return again, back
}

// expectLate is called when a commit is over, and its results are known.
func (c *commit) expectLate() {
	if !c.broke.Load() {
		return
	}
	var traces []*trace
	for i, op := range c.ops {
		if op.Ephemeral() {
			op.Value = nil
			traces = append(traces, &trace{op, c.nonces[i], time.Now().Add(lateFor)})
		}
	}
	if len(traces) > 0 {
		c.s.late.add(traces...)
		c.s.lookAgain(false)
	}
}

// lookAgain starts one goroutine that looks for entries that were made late and removes them, and on a
// new link looks for entries that are back: see past. It does not use the Reaper, which may have to
// remove what this waits for. It does not block.
func (s *session) lookAgain(link bool) {
	s.late.mu.Lock()
	defer s.late.mu.Unlock()
	s.late.back = s.late.back || link && len(s.learned.past.Places()) > 0
	s.late.again = len(s.late.traces) > 0 || s.late.back
	if s.late.again && !s.late.looking {
		s.late.looking = s.Run(s.look)
	}
}

func (s *session) look() {
	for failed := 0; ; {
		again, back := s.late.next()
		if !again {
			return
		}
		err := s.removeTraces(s.Ctx)
		if back {
			why := s.lookBack(s.Ctx)
			back, err = why != nil, errors.Join(err, why)
		}
		switch {
		case s.Ctx.Err() != nil:
			return // they go with the session
		case err == nil:
			failed = 0
			continue
		}
		if failed&(failed-1) == 0 { // the first time, and more rarely over time
			s.cfg.Logger.Warn("zookeeper: what may have been made late, or be back, cannot be looked for; trying again", "session", s.ID(), "error", err)
		}
		s.lookAgain(back)
		select {
		case <-time.After(pauseAfter(failed)):
		case <-s.Ctx.Done():
		}
		failed++
	}
}

// removeTraces looks for each trace, after all that has waited before this link is done. A failure at
// one trace does not stop the others.
func (s *session) removeTraces(ctx context.Context) error {
	traces := s.late.all()
	if len(traces) == 0 {
		return nil
	}
	if err := s.settle(ctx, 0); err != nil {
		s.late.keep(traces...)
		return err
	}
	queued := make(map[string][]*trace) // by directory
	var errs []error
	for _, t := range traces {
		if t.op.Kind == backend.OpEnqueue {
			queued[t.op.Key] = append(queued[t.op.Key], t)
		} else if err := s.removeMade(ctx, t.op); err != nil {
			s.late.keep(t)
			errs = append(errs, err)
		}
	}
	for dir, traces := range queued {
		if err := s.removeQueued(ctx, dir, traces); err != nil {
			s.late.keep(traces...)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// removeQueued removes what was enqueued late in a directory.
func (s *session) removeQueued(ctx context.Context, dir string, traces []*trace) error {
	children, _, err := s.list(ctx, dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, child := range children {
		n, ok := parseName(child)
		if !ok || !slices.ContainsFunc(traces, func(t *trace) bool { return t.nonce == n.nonce }) {
			continue
		}
		if key := dir + "/" + child; !s.learned.owned(key) {
			errs = append(errs, s.removeUnknown(ctx, key))
		}
	}
	return errors.Join(errs...)
}

// removeMade removes what was created late. Nothing else in this session creates it meanwhile.
func (s *session) removeMade(ctx context.Context, op backend.Op) error {
	give, err := s.TakeTurn(ctx, latePatience, []backend.Op{op})
	if err != nil {
		return err
	}
	defer give()
	return s.removeUnknown(ctx, op.Key)
}

// removeUnknown removes an entry of this session that no commit has reported or will report.
func (s *session) removeUnknown(ctx context.Context, key string) error {
	n, err := s.get(ctx, s.path(key))
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil
	case err != nil:
		return err
	}
	e := s.entry(s.path(key), n)
	if _, known := s.learned.own(e); known || e.Session != s.ID() {
		return nil
	}
	s.cfg.Logger.Warn("zookeeper: a request was done long after its link had broken; removing the entry that it made",
		"session", s.ID(), "key", key)
	return s.drop(ctx, e)
}
