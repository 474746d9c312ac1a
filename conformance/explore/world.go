package explore

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/conformance/history"
	"github.com/elector-go/elector/internal/layout"
	"github.com/elector-go/elector/strategy"
)

const (
	// ttl is so long that the explorer's own actions take no time in comparison.
	ttl = time.Hour
	// margin is memory's margin: how long after the window the service drops a session.
	margin = ttl / 10
	// lateBy is how long a late request is on its way: something may happen before it arrives, and no
	// window ends.
	lateBy = ttl / 60
	// patience is how long a candidate may wait for nothing but the clock.
	patience = ttl / 12
	// dir is the election's directory, unless the candidates found it.
	dir = Election + "/d"
	// commits is the directory where leaders write.
	commits = "/commits"
)

// A world is the run of one schedule: a service, candidates, and calls that wait. It lives in a bubble of
// testing/synctest.
type world struct {
	cfg        Config
	svc        *memory.Service
	candidates []*candidate
	ctx        context.Context // ends when the schedule is over
	cancel     context.CancelFunc
	running    sync.WaitGroup // the candidates' programs
	retried    atomic.Bool

	steps  []string // chosen so far
	faults int      // how many of them were faults
	calm   bool     // no more faults may happen
	last   *candidate
	idle   bool // time has passed without effect
	moves  int  // of the clock
	late   []lateRequest
	// designated is the candidate that an operator has designated, or nil.
	designated *candidate
	// catchUp ends a Lag. It is nil if there is none.
	catchUp func()
	tell    bool
	rec     *history.Recorder // nil: the schedule is not recorded

	mu      sync.Mutex
	parked  []*call
	over    bool
	owners  map[string]owner  // by session ID
	token   uint64            // of the last term that began
	past    []backend.Entry   // what the last Lag shows
	lists   map[string]uint64 // its listings' revisions, by directory
	deleted map[uint64]bool   // entries that the operator deleted, by Rev
	applied map[string]bool   // commits
	failure *Failure
	trace   []string
	history *history.History // of all steps, without finish
}

// A lateRequest is a pending commit. They are listed in the order in which they arrive.
type lateRequest struct {
	*call
	at time.Time
}

// An owner is the candidate of a session, and the number of the session among the candidate's.
type owner struct {
	by *candidate
	nr int
}

// newWorld starts the candidates, and returns when all wait. tell traces and records the schedule.
func newWorld(cfg Config, tell bool) *world {
	w := &world{cfg: cfg, tell: tell, owners: make(map[string]owner), deleted: make(map[uint64]bool), applied: make(map[string]bool)}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.svc = memory.New(memory.Options{Intercept: w.intercept})
	if tell {
		w.rec = history.NewRecorder(history.Logical(), "").In(Election)
		w.rec.LookEvery(0) // see look
	}
	_ = w.svc.Put(commits, nil) // a fresh service accepts any path
	if name := cfg.Strategy().Name(); !cfg.Found && !w.foreign() {
		record := layout.NewRecord(name)
		record.Dir = dir[len(Election)+1:]
		_ = w.svc.Put(Election, record.Encode())
		_ = w.svc.Put(dir, nil)
	}
	for i := range cfg.Candidates {
		c, err := newCandidate(w, i)
		if err != nil {
			w.broken("campaign", "New: %v", err)
			return w
		}
		w.candidates = append(w.candidates, c)
	}
	for _, c := range w.candidates {
		w.running.Go(c.run)
	}
	w.settle()
	return w
}

func (w *world) foreign() bool {
	_, ok := w.cfg.Strategy().(strategy.CustomLayout)
	return ok
}

// intercept parks Close at the point where memory has declared the session lost, as the contract demands,
// and has not told the service.
func (w *world) intercept(s memory.Step) {
	if s.Kind != memory.StepClose {
		return
	}
	w.mu.Lock()
	by := w.owners[s.Session].by
	w.mu.Unlock()
	if by == nil {
		return // of an operator
	}
	c := by.call(callClose, "close the session")
	w.park(context.Background(), c)
	w.landed(c)
}

// set changes state that the explorer reads.
func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func (w *world) tracef(format string, args ...any) {
	if w.tell {
		w.trace = append(w.trace, fmt.Sprintf(format, args...))
	}
}

// settle returns when all goroutines wait, for the explorer or for each other, and all calls that leave
// the explorer no choice are released.
func (w *world) settle() {
	for n := 0; ; n++ {
		synctest.Wait()
		if w.retried.Swap(false) {
			time.Sleep(time.Microsecond) // more than the longest backoff
			continue
		}
		c := w.forced()
		if c == nil {
			return
		}
		if n > maxSteps {
			w.broken("endless", "%s continues by itself without end, with: %s", c.by, c.text)
			return
		}
		w.free(c)
	}
}

// forced returns a call that does not affect others, whenever it is released, and learns nothing from
// them, or nil.
func (w *world) forced() *call {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.candidates {
		for _, k := range w.parked {
			if k.by == c && !c.crashed && w.isForced(k) {
				return k
			}
		}
	}
	return nil
}

func (w *world) isForced(k *call) bool {
	switch k.kind {
	case callOpen:
		return true
	case callRetry:
		return !k.by.cut
	case callClose:
		return k.by.cut || !w.entry(k.by, w.entries()).Exists()
	case callGet:
		if !w.cfg.Found && k.key == Election && !w.records() {
			return true // nobody writes it
		}
	}
	return k.session.State() == backend.Lost
}

// records reports whether the election's record may change after the founding.
func (w *world) records() bool {
	return w.mayDesignate() || w.designates() && w.cfg.Faults > 0 && slices.Contains(w.cfg.Kinds, AskTo)
}

func (w *world) mayDesignate() bool {
	return w.designates() && w.cfg.Faults > 0 && slices.Contains(w.cfg.Kinds, Designate)
}

// entries returns all entries in the service.
func (w *world) entries() []backend.Entry {
	var all []backend.Entry
	var walk func(string)
	walk = func(at string) {
		for _, e := range w.svc.Entries(at) {
			all = append(all, e)
			if e.Session == "" {
				walk(e.Key)
			}
		}
	}
	walk("/")
	return all
}

// finish releases everything, closes the electors and checks what is left.
func (w *world) finish() {
	w.mu.Lock()
	w.over = true
	for _, k := range w.parked {
		close(k.let)
	}
	w.parked = nil
	w.mu.Unlock()
	w.cancel()
	for _, c := range w.candidates {
		c.client.Resume()
	}
	w.running.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), ttl)
	defer cancel()
	for _, c := range w.candidates {
		if err := c.elector.Close(ctx); err != nil && !c.crashed { // a dead process can confirm nothing
			w.broken("leftover", "closing %s: %v", c, err)
		}
	}
	synctest.Wait()
	if w.svc.Stats().Sessions > 0 {
		// A session that was lost while its link was cut could not be closed, if a new one was opened
		// just now. The service times it out: it does not count as left.
		time.Sleep(2 * ttl)
	}
	if s := w.svc.Stats(); s.Sessions > 0 || s.Watches > 0 {
		w.broken("leftover", "%d sessions and %d watches are left", s.Sessions, s.Watches)
	}
}
