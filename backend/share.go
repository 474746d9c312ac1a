package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector/internal/unhurried"
)

// Share returns a Backend whose Open calls share one session of b, so that many elections of one process
// cost one connection and one heartbeat. The first Open opens the session and the last Close ends it. A
// lost session is lost for all its users, and the next Open replaces it.
//
// A session that Open returns behaves like a session of its own: closing it drops the entries that were
// created through it, and only those. An entry that cannot be removed exists for as long as the others use
// the session: then Close returns ErrStanding, and another Close tries again. ttl is the timeout of the
// shared session; zero means b's default. The TTL given to Open must be zero or the same.
func Share(b Backend, ttl time.Duration) *Shared {
	if ttl == 0 {
		ttl = b.Limits().DefaultTTL
	}
	return &Shared{backend: b, ttl: ttl, opening: make(chan struct{}, 1)}
}

// Shared is a Backend made by Share.
type Shared struct {
	backend Backend
	ttl     time.Duration
	opening chan struct{} // held while a session is looked for or opened

	mu      sync.Mutex
	present *shared // nil: none
}

// shared is one shared session.
type shared struct {
	session *Session
	users   int // guarded by Shared.mu
	// The lines for requests and for unhurried ones hold those that are pending: see take. given counts how
	// often line has moved.
	line, unhurried chan struct{}
	given           atomic.Uint64
}

// String returns the name of the shared backend.
func (b *Shared) String() string { return b.backend.String() }

// Limits returns limits that allow only the TTL of the shared session.
func (b *Shared) Limits() Limits {
	return Limits{MinTTL: b.ttl, MaxTTL: b.ttl, DefaultTTL: b.ttl, Waits: b.backend.Limits().Waits}
}

// Open implements Backend.
func (b *Shared) Open(ctx context.Context, o OpenOptions) (*Session, error) {
	if o.TTL != 0 && o.TTL != b.ttl {
		return nil, fmt.Errorf("%v: open: TTL %v differs from the shared session's %v", b, o.TTL, b.ttl)
	}
	select {
	case b.opening <- struct{}{}:
		defer func() { <-b.opening }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if h := b.join(nil); h != nil {
		return h, nil
	}
	// The handles of a lost session close it.
	s, err := b.backend.Open(ctx, OpenOptions{TTL: b.ttl})
	if err != nil {
		return nil, err
	}
	return b.join(s), nil
}

// join returns a handle on opened, or, if opened is nil, on the present session if it lives. It looks and
// joins in one step, so that the last user cannot leave in between and end the session.
func (b *Shared) join(opened *Session) *Session {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case opened != nil:
		b.present = &shared{session: opened, line: make(chan struct{}, mostPending), unhurried: make(chan struct{}, mostUnhurried)}
	case b.present == nil || b.present.session.State() == Lost,
		!time.Now().Before(b.present.session.Deadline()): // its timer is late: the process was stopped
		return nil
	}
	b.present.users++
	h := &handle{Session: b.present.session, of: b.present, shared: b}
	return h.Session.Around(Layer{Life: h, Call: h.call})
}

// leave gives up one use of s and returns its session if the caller must close it.
func (b *Shared) leave(s *shared) *Session {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s != b.present {
		return s.session // lost and replaced; closing it again does no harm
	}
	if s.users--; s.users > 0 {
		return nil
	}
	b.present = nil
	return s.session
}

const (
	// mostPending and mostUnhurried are how many requests of a shared session are pending before others wait
	// in line.
	mostPending, mostUnhurried = 256, 32
	// longestStuck is how long one waits in a line that does not move: those that are pending may wait for
	// something else than the service.
	longestStuck = time.Second
)

// take waits in line, and returns the line that the caller must give back to when its request is done, or nil.
// If ten thousand elections asked at once, each would hold what a request needs until all are answered. If they
// all have a new leader at once, their marks would keep some from learning that they lead.
func (s *shared) take(ctx context.Context) (line chan struct{}) {
	if awaited := unhurried.Awaited(ctx); awaited != nil {
		select {
		case s.unhurried <- struct{}{}:
			return s.unhurried
		case <-awaited:
		case <-ctx.Done():
			return nil
		}
	}
	select {
	case s.line <- struct{}{}:
		return s.line
	default:
	}
	stuck := time.NewTicker(longestStuck)
	defer stuck.Stop()
	for given := s.given.Load(); ; {
		select {
		case s.line <- struct{}{}:
			return s.line
		case <-stuck.C:
			last := given
			if given = s.given.Load(); given == last {
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}

func (s *shared) give(line chan struct{}) {
	if line == s.line {
		s.given.Add(1)
	}
	<-line
}

// handle is one user's view of a shared session: the layer around it, and its Life.
type handle struct {
	*Session
	of     *shared
	shared *Shared

	mu      sync.Mutex
	closed  bool
	last    *Session  // to be closed with this handle, the last one
	flights []*flight // the pending calls
	// made are the ephemeral entries created through this handle that may still exist, by their keys.
	made map[string]*standing
}

// A flight is a pending call.
type flight struct{ cancel context.CancelFunc }

// A standing is an entry without its value. It is doubted if its removal is not confirmed yet.
type standing struct {
	Entry
	doubted bool
}

// bound calls do with a ctx that also ends with the handle.
func (h *handle) bound(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	f := &flight{cancel}
	h.begin(f)
	defer h.end(f)
	if err := do(ctx); err != nil {
		return h.failed(err)
	}
	return nil
}

func (h *handle) begin(f *flight) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.flights = append(h.flights, f)
	if h.closed {
		f.cancel()
	}
}

func (h *handle) end(f *flight) {
	f.cancel()
	h.mu.Lock()
	defer h.mu.Unlock()
	if i := slices.Index(h.flights, f); i >= 0 {
		h.flights = slices.Delete(h.flights, i, i+1)
	}
}

// failed returns the error of a call: that of a lost session if the handle is closed.
//
//go:noinline
func (h *handle) failed(err error) error {
	if h.isClosed() && !errors.Is(err, ErrSessionLost) {
		err = fmt.Errorf("%v: %w: closed: %w", h.shared, ErrSessionLost, err)
	}
	return err
}

func (h *handle) isClosed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.closed
}

func (h *handle) State() State {
	if h.isClosed() {
		return Lost
	}
	return h.Session.State()
}

func (h *handle) AwaitState(ctx context.Context, prev State) (state State, err error) {
	err = h.bound(ctx, func(ctx context.Context) error {
		state, err = h.Session.AwaitState(ctx, prev)
		return err
	})
	if h.isClosed() {
		return Lost, nil
	}
	return state, err
}

// call makes a call, and notes what it says about the entries created through the handle.
func (h *handle) call(ctx context.Context, c *Call, next func(context.Context) error) error {
	switch c.Kind {
	case CallAwait, CallAwaitList: // needs little stack
		err := h.bound(ctx, next)
		h.note(c, 0, err)
		return err
	}
	return h.ask(ctx, c, next)
}

// ask makes a call that asks the service, and does not wait for a change. What removes an entry does not
// wait in line: somebody may wait for that.
//
//go:noinline
func (h *handle) ask(ctx context.Context, c *Call, next func(context.Context) error) error {
	switch c.Kind {
	case CallDiscard:
		return h.Discard(ctx, c.Entry)
	case CallClose:
		return h.Close(ctx)
	}
	return h.bound(ctx, func(ctx context.Context) error {
		removes := slices.ContainsFunc(c.Ops, func(o Op) bool { return o.Kind == OpDelete })
		if !removes {
			if line := h.of.take(ctx); line != nil {
				defer h.of.give(line)
			}
		}
		if c.Kind == CallCommit {
			return h.commit(ctx, c, next)
		}
		had := h.own(c.Key) // before the call, which may miss what is created meanwhile
		err := next(ctx)
		h.note(c, had, err)
		return err
	})
}

// note learns from a call which entries of the handle are gone. had is the revision of the handle's entry
// under the call's key before a Get.
//
//go:noinline
func (h *handle) note(c *Call, had uint64, err error) {
	switch c.Kind {
	case CallGet:
		if errors.Is(err, ErrNoEntry) || err == nil && c.Found.Rev > had {
			h.gone(Entry{Key: c.Key, Rev: had})
		}
	case CallPredecessor:
		if errors.Is(err, ErrNoEntry) {
			h.gone(c.Entry)
		}
	case CallAwait:
		for i, e := range c.Entries {
			if e.Rev != c.KnownEntries[i].Rev {
				h.gone(c.KnownEntries[i])
			}
		}
	}
}

func (h *handle) commit(ctx context.Context, c *Call, next func(context.Context) error) error {
	if err := next(ctx); err != nil {
		return err
	}
	h.mu.Lock()
	for i, op := range c.Ops {
		switch op.Kind {
		case OpCreateEphemeral, OpEnqueue:
			if e := c.Entries[i]; e.Rev > h.rev(e.Key) { // calls return in any order
				if h.made == nil {
					h.made = make(map[string]*standing)
				}
				e.Value = nil
				h.made[e.Key] = &standing{Entry: e}
			}
		case OpDelete:
			h.forget(op.Key, op.Rev)
		}
	}
	late := h.closed
	h.mu.Unlock()
	if late {
		// Close may have gone through h.made already. The commit is done all the same: its persistent
		// writes remain. If dropAll fails, another Close reports it; the session continues to remove the
		// rest.
		_ = h.dropAll(ctx)
	}
	return nil
}

// Discard also tries again to remove earlier entries, once it can remove something: the session may have
// removed them in the background since, and does not report that.
func (h *handle) Discard(ctx context.Context, e Entry) error {
	if err := h.drop(ctx, e); err != nil {
		return err
	}
	for _, d := range h.standing(true) {
		if h.drop(ctx, d) != nil {
			break // e is gone, which is all the caller asked for
		}
	}
	return nil
}

func (h *handle) drop(ctx context.Context, e Entry) error {
	err := h.Session.Discard(ctx, e)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil || errors.Is(err, ErrSessionLost) {
		h.forget(e.Key, e.Rev)
	} else if h.rev(e.Key) == e.Rev && e.Exists() {
		h.made[e.Key].doubted = true
	}
	return err
}

// standing returns the entries that may still exist, or only those that are doubted.
func (h *handle) standing(doubted bool) (entries []Entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range h.made {
		if m.doubted || !doubted {
			entries = append(entries, m.Entry)
		}
	}
	return entries
}

// own returns the revision of the entry under key that was created through the handle, if it may still exist.
func (h *handle) own(key string) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rev(key)
}

// rev is own for a caller that holds mu.
func (h *handle) rev(key string) uint64 {
	if m := h.made[key]; m != nil {
		return m.Rev
	}
	return 0
}

// gone notes that an incarnation was seen to be gone, removed by anybody.
func (h *handle) gone(e Entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forget(e.Key, e.Rev)
}

// forget is for entries that are known to be gone, or to go with the session. Any other entry blocks its
// election as long as anybody uses the session, so Close must report it.
func (h *handle) forget(key string, rev uint64) {
	if h.rev(key) == rev {
		delete(h.made, key)
	}
}

func (h *handle) Close(ctx context.Context) error {
	h.mu.Lock()
	if !h.closed {
		h.closed, h.last = true, h.shared.leave(h.of)
	}
	for _, f := range h.flights {
		f.cancel()
	}
	h.mu.Unlock()
	if h.last != nil {
		return h.last.Close(ctx)
	}
	return h.dropAll(ctx)
}

// dropAll drops the entries of the handle. Those whose removal is not confirmed stay noted, so that another
// Close can try again.
func (h *handle) dropAll(ctx context.Context) error {
	var errs []error
	for _, e := range h.standing(false) {
		if err := h.drop(ctx, e); err != nil && !errors.Is(err, ErrSessionLost) {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("%v: close: %w: %w", h.shared, ErrStanding, errors.Join(errs...))
	}
	return nil
}
