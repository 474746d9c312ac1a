package register

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// A session is a record in the document. Its writes are in write.go.
type session struct {
	driver.Life
	*Backend
	acknowledged atomic.Pointer[acknowledgement]

	queue  chan struct{} // held by the one commit that has or awaits the turn: so a heartbeat waits for one commit at most
	turn   chan struct{} // held by the one write that is under way, and guards what follows
	doubts []doubt       // writes whose callers have given up, and that may still be done
}

// An acknowledgement is the last heartbeat that is known to be in the object, since the swap seq.
type acknowledgement struct{ seq, beat uint64 }

// acknowledge notes that a document of this session is in the object.
func (s *session) acknowledge(d *document) {
	s.acknowledged.Store(&acknowledgement{d.Seq, d.Sessions[s.ID()].Beat})
}

// check ends the session if it is not in a snapshot, or if the snapshot does not know its last heartbeat.
func (s *session) check(snap *snapshot) {
	last := s.acknowledged.Load()
	switch r, lives := snap.sessions()[s.ID()]; {
	case snap.seq() < last.seq: // it is older
	case !lives:
		s.Lose(errRemoved)
	case r.Beat < last.beat:
		s.Lose(errors.New("the object was restored to a state before the session's last heartbeat"))
	}
}

var errRemoved = errors.New("the session's record was removed: its heartbeats came too late, or somebody has deleted it")

// timeout bounds one request. It leaves time for another one, if a connection is dead.
func (s *session) timeout() time.Duration { return s.TTL() / 2 }

// heartbeats returns what sends one: see driver.Life.BeatBy. The session is renewed four times in its timeout,
// and when another session must be removed. Sessions do not do so at the same instant: only one swap can
// succeed.
func (s *session) heartbeats() func() (next time.Duration) {
	var pause driver.Pause
	return func() time.Duration {
		if err := s.update(s.Ctx, nil); err != nil {
			s.Suspend(err)
			return min(pause.Next(), s.TTL()/4)
		}
		pause = driver.Pause{}
		return s.link.untilSilent(s.ID(), s.TTL()/4-s.TTL()/64) + rand.N(s.TTL()/64)
	}
}

// outOfTouch notes that the store does not answer. The next heartbeat finds out when it does.
func (s *session) outOfTouch(err error) {
	s.Suspend(err)
	s.BeatSoon()
}

// request reads the object once.
func (s *session) request(ctx context.Context) (*snapshot, error) {
	ctx, unbind := s.Bind(ctx)
	defer unbind()
	ctx, cancel := context.WithTimeout(ctx, s.timeout())
	defer cancel()
	snap, err := s.link.read(ctx)
	if err == nil {
		err = s.Over(ctx) // the snapshot may have ended the session
	}
	return snap, err
}

// boundSwap returns the context of one swap. A swap that is under way when the session is lost may be
// answered a moment later, and then its outcome is known. A call of Close does not wait for that.
func (s *session) boundSwap(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout())
	stop := context.AfterFunc(s.Ctx, func() {
		if errors.Is(s.LostError(), driver.ErrClosed) {
			cancel()
			return
		}
		time.AfterFunc(min(time.Second, s.timeout()), cancel)
	})
	return ctx, func() { stop(); cancel() }
}

// lasts reports whether an error of the store lasts until somebody mends its cause.
func lasts(err error) bool {
	return errors.Is(err, backend.ErrDenied) || errors.Is(err, backend.ErrTooLarge) || errors.Is(err, ErrForeign) || errors.Is(err, errLater)
}

// end removes the session's record and entries.
func (s *session) end(ctx context.Context, _ error) {
	if err := s.remove(ctx, s.ID()); err != nil {
		s.Life.Unconfirmed(err)
		return
	}
	s.Confirm()
}

// WillSecret implements backend.Testator.
func (s *session) WillSecret() []byte { return nil }

// read reads the object when the session is in touch. It rides out failures that may pass.
func (s *session) read(ctx context.Context) (*snapshot, error) {
	var bout driver.Bout
	var pause driver.Pause
	for {
		if err := s.AwaitLive(ctx); err != nil {
			return nil, err
		}
		snap, err := s.request(ctx)
		over := s.Over(ctx)
		switch {
		case over != nil:
			return nil, over
		case err == nil:
			return snap, nil
		case lasts(err):
			return nil, err
		case bout.Over(s.TTL()):
			return nil, fmt.Errorf("%w for %v: %w", backend.ErrUnavailable, s.TTL(), err)
		case !errors.Is(err, backend.ErrUnavailable): // else the store answers
			s.outOfTouch(err)
		}
		if err := s.Pause(ctx, &pause); err != nil {
			return nil, err
		}
	}
}

// Get implements backend.Driver.
func (s *session) Get(ctx context.Context, key string) (backend.Entry, error) {
	snap, err := s.read(ctx)
	if err != nil {
		return backend.Entry{}, err
	}
	e := snap.doc.at(key)
	if !e.Exists() {
		return backend.Entry{}, backend.ErrNoEntry
	}
	return e, nil
}

// Survey implements backend.Driver.
func (s *session) Survey(ctx context.Context, key string, _ func(backend.Entry) string) (backend.Entry, []string, error) {
	snap, err := s.read(ctx)
	if err != nil {
		return backend.Entry{}, nil, err
	}
	return snap.doc.at(key), snap.doc.below(key, func(e entry) bool { return e.Session != "" }), nil
}

// Children implements backend.Driver.
func (s *session) Children(ctx context.Context, key string, most int) (keys []string, more bool, err error) {
	snap, err := s.read(ctx)
	if err != nil {
		return nil, false, err
	}
	keys = snap.doc.below(key, func(entry) bool { return true })
	return keys[:min(most, len(keys))], len(keys) > most, nil
}

// List implements backend.Driver.
func (s *session) List(ctx context.Context, dir string) (backend.Listing, error) {
	snap, err := s.read(ctx)
	if err != nil {
		return backend.Listing{}, err
	}
	return snap.doc.list(dir), nil
}

// Predecessor implements backend.Driver.
func (s *session) Predecessor(ctx context.Context, e backend.Entry) (backend.Entry, error) {
	snap, err := s.read(ctx)
	if err != nil {
		return backend.Entry{}, err
	}
	return snap.doc.predecessor(e)
}

// Await implements backend.Driver. What it returns is the state at one instant.
func (s *session) Await(ctx context.Context, known ...backend.Entry) ([]backend.Entry, error) {
	return await(ctx, s, func(d *document) ([]backend.Entry, bool) {
		now := make([]backend.Entry, len(known))
		for i, e := range known {
			now[i] = d.at(e.Key)
		}
		return now, !slices.EqualFunc(now, known, backend.Entry.Same)
	})
}

// AwaitList implements backend.Driver.
func (s *session) AwaitList(ctx context.Context, known backend.Listing) (backend.Listing, error) {
	return await(ctx, s, func(d *document) (backend.Listing, bool) {
		now := d.list(known.Dir)
		return now, !slices.Equal(now.Keys, known.Keys)
	})
}

// await returns what look finds, once it reports a change.
func await[T any](ctx context.Context, s *session, look func(*document) (T, bool)) (T, error) {
	defer s.link.waits()()
	snap, err := s.read(ctx)
	for err == nil {
		if now, changed := look(snap.doc); changed {
			return now, nil
		}
		newest, next := s.link.latest()
		if newest == snap {
			err = s.Wait(ctx, next)
			newest, _ = s.link.latest()
		}
		if snap = newest; snap == nil { // the object went back: all sessions end
			err = s.Wait(ctx, nil)
		}
	}
	var none T
	return none, err
}
