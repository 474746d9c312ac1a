package electionrules

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/elector-go/elector/backend"
)

// An operator looks at elections from outside, in a session of its own, and makes the rule's changes.
type operator struct {
	a        *arena
	session  *backend.Session
	sessions int // opened so far
}

// look returns a live session.
func (o *operator) look() *backend.Session {
	a := o.a
	if o.session != nil && o.session.State() != backend.Lost {
		return o.session
	}
	client := a.process()
	a.Until("an operator gets a session", func() bool {
		s, err := client.Backend.Open(a.within(), backend.OpenOptions{TTL: a.Lasting()})
		a.FailIf(err != nil && !errors.Is(err, backend.ErrUnavailable), "open: %v", err)
		if err == nil {
			o.session = s
			o.sessions++
			a.T.Cleanup(func() { shut(s.Close) })
		}
		return err == nil
	})
	return o.session
}

// shut closes what is not, or no longer, under test.
func shut(end func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = end(ctx)
}

func (o *operator) close() {
	if o.session != nil {
		shut(o.session.Close)
	}
}

// find is Get, but a missing entry has Rev 0 and is no error.
func find(ctx context.Context, s *backend.Session, key string) (backend.Entry, error) {
	e, err := s.Get(ctx, key)
	if errors.Is(err, backend.ErrNoEntry) {
		return backend.Entry{Key: key}, nil
	}
	return e, err
}

// read retries an operator's read whose session was lost meanwhile.
func read[T any](a *arena, what string, get func(ctx context.Context, s *backend.Session) (T, error)) T {
	var out T
	a.Until(what+" can be read", func() bool {
		v, err := get(a.within(), a.operator.look())
		a.FailIf(err != nil && !errors.Is(err, backend.ErrSessionLost), "%s: %v", what, err)
		out = v
		return err == nil
	})
	return out
}

// readNow reads the current state: no member is behind for a session that has just written.
func readNow[T any](a *arena, what string, get func(ctx context.Context, s *backend.Session) (T, error)) T {
	return read(a, what, func(ctx context.Context, s *backend.Session) (out T, err error) {
		// No other session writes there, not even an earlier one that was lost.
		here, err := find(ctx, s, a.own(fmt.Sprintf("here-%d", a.operator.sessions)))
		if err == nil {
			_, err = s.Commit(ctx, nil, backend.CompareAndSet(here.Key, nil, here.Version))
		}
		if err == nil {
			out, err = get(ctx, s)
		}
		return out, err
	})
}
