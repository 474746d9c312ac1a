package register

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// Config configures a Backend. Name and Store are required.
type Config struct {
	// Name is the backend's name in logs and errors.
	Name string
	// Store keeps the object. No other Backend of this process should use the same object.
	Store Store
	// MaxBytes is the maximum size of the object for commits. One that would make a larger object returns
	// backend.ErrTooLarge, unless it makes the object smaller. Sessions and their heartbeats may exceed it,
	// by some hundred bytes for each session. Zero means 200 KiB.
	MaxBytes int
	// SessionTimeout is the timeout of sessions for which Open gets none. Zero means DefaultTTL.
	SessionTimeout time.Duration
	// Poll is how often the object is read while somebody waits and Store is no Notifier. Zero means one
	// second.
	Poll time.Duration
	// Logger logs changes of a session's state, and what is tried again. Nil logs nothing.
	Logger *slog.Logger
}

// The session timeouts. A session sends four heartbeats in its timeout.
const (
	MinTTL     = 2 * time.Second
	MaxTTL     = 10 * time.Minute
	DefaultTTL = 15 * time.Second
)

// A Backend keeps the sessions and entries of elections in one object. Its String is Config.Name.
type Backend struct {
	cfg  Config
	link link
}

// New returns a Backend. It does not connect. The error names what is missing in cfg.
func New(cfg Config) (*Backend, error) {
	switch {
	case cfg.Name == "":
		return nil, errors.New("register: Config.Name is empty")
	case cfg.Store == nil:
		return nil, errors.New("register: Config.Store is nil")
	case cfg.MaxBytes < 0 || cfg.Poll < 0:
		return nil, errors.New("register: Config.MaxBytes or Poll is negative")
	case cfg.SessionTimeout != 0 && (cfg.SessionTimeout < MinTTL || cfg.SessionTimeout > MaxTTL):
		return nil, fmt.Errorf("register: the SessionTimeout of %v is not between %v and %v", cfg.SessionTimeout, MinTTL, MaxTTL)
	}
	cfg.SessionTimeout = cmp.Or(cfg.SessionTimeout, DefaultTTL)
	cfg.MaxBytes, cfg.Poll = cmp.Or(cfg.MaxBytes, 200<<10), cmp.Or(cfg.Poll, time.Second)
	b := &Backend{cfg: cfg}
	b.link.init(cfg.Store, cfg.Poll)
	return b, nil
}

// String implements backend.Backend.
func (b *Backend) String() string { return b.cfg.Name }

// Limits implements backend.Backend.
func (b *Backend) Limits() backend.Limits {
	return backend.Limits{MinTTL: MinTTL, MaxTTL: MaxTTL, DefaultTTL: b.cfg.SessionTimeout}
}

// Open implements backend.Backend.
func (b *Backend) Open(ctx context.Context, o backend.OpenOptions) (*backend.Session, error) {
	return driver.Open(ctx, b, o, b.open)
}

// open adds the record of a new session. If its ctx ends before the store confirms, a record may be left
// that nobody renews: it has no entries, and others remove it.
func (b *Backend) open(ctx context.Context, ttl time.Duration) (*session, error) {
	s := &session{Backend: b, queue: make(chan struct{}, 1), turn: make(chan struct{}, 1)}
	id := strconv.FormatUint(driver.NewNonce(), 16)
	caller := ctx
	ctx, cancel := context.WithTimeout(ctx, ttl) // a later reply is of no use
	defer cancel()
	var pause driver.Pause
	for {
		snap, err := b.link.read(ctx)
		if err != nil {
			return nil, refused(caller, err)
		}
		nonce := driver.NewNonce()
		next := snap.doc.next(nonce, time.Now())
		for _, other := range b.link.silent(snap) { // perhaps of earlier calls that got no reply
			next.drop(other)
		}
		// If an earlier swap was done in spite of ErrMoved, others may have seen its beat long ago.
		next.Sessions[id] = record{TTL: ttl, Beat: next.Sessions[id].Beat + 1, Slot: nonce}
		sent := time.Now()
		err = b.link.swap(ctx, snap, next)
		switch {
		case errors.Is(err, ErrMoved) && pause.Wait(ctx):
			continue
		case err != nil:
			return nil, refused(caller, err)
		}
		s.Init(driver.LifeOptions{
			Name: b.cfg.Name, Logger: b.cfg.Logger,
			End: s.end, Ended: func() { b.link.leave(s) },
			Unconfirmed: errUnconfirmed, Remove: driver.RemoveBy(s.Commit),
		})
		s.Begin() // if the window has passed already, the session leaves after it has joined
		defer s.Done()
		s.Grant(id, sent, ttl, ttl/8)
		s.acknowledge(next)
		b.link.join(s)
		s.BeatBy(ttl/4, s.heartbeats())
		return s, nil
	}
}

var errUnconfirmed = errors.New("the store has not confirmed the end of the session; its entries go when others see that its heartbeats have stopped")

// refused returns the error of a session that cannot be opened.
func refused(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)):
		return driver.ContextError(ctx)
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", driver.ContextError(ctx), err)
	case lasts(err), errors.Is(err, backend.ErrUnavailable):
		return err
	}
	return fmt.Errorf("%w: %w", backend.ErrUnavailable, err)
}

// Execute implements backend.Executor.
func (b *Backend) Execute(ctx context.Context, w backend.Will) error {
	if len(w.Secret) > 0 {
		return errors.New("the will has a secret, as no will of this backend has")
	}
	return b.remove(ctx, w.Session)
}

// remove removes a session's record and entries, and returns nil once they are gone. Swaps of the session
// that are still under way expect an older tag, and are never done after that.
func (b *Backend) remove(ctx context.Context, id string) error {
	var pause driver.Pause
	for {
		gone, err := b.tryRemove(ctx, id)
		switch {
		case gone:
			return nil
		case lasts(err):
			return err
		case err != nil && !pause.Wait(ctx):
			return fmt.Errorf("%w: %w", driver.ContextError(ctx), err)
		}
	}
}

func (b *Backend) tryRemove(ctx context.Context, id string) (gone bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	snap, err := b.link.read(ctx)
	if err != nil {
		return false, err
	}
	if _, lives := snap.sessions()[id]; !lives {
		return true, nil
	}
	next := snap.doc.next(driver.NewNonce(), time.Now())
	next.drop(id)
	err = b.link.swap(ctx, snap, next)
	return err == nil, err
}
