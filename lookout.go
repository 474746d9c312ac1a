package elector

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector/backend"
)

// occupied is the error of a candidate that finds strangers, if there are any.
func occupied(strangers []string) error {
	const most = 5
	var named []string
	for i, key := range strangers {
		if i == most {
			named = append(named, fmt.Sprintf("and %d more", len(strangers)-most))
			break
		}
		named = append(named, fmt.Sprintf("%.200q", key)) // somebody else has chosen the name
	}
	if named == nil {
		return nil
	}
	return fmt.Errorf("%w: %s: take another path, or stop them and delete what is left", ErrOccupied, strings.Join(named, ", "))
}

// minSurveyEvery leaves a wait the time to find out that there is no need to wait: its first
// read begins again after each look.
const minSurveyEvery = time.Second

// A lookout looks for strangers from time to time, while a candidate waits for other things.
// A change that it waits for takes no look and no request more.
type lookout struct {
	e     *elector
	s     *backend.Session
	every time.Duration

	mu    sync.Mutex
	next  time.Time
	under atomic.Bool // a look is under way
}

// newLookout returns nil where nobody is to look.
func (e *elector) newLookout(s *backend.Session) *lookout {
	l := &lookout{e: e, s: s, every: e.cfg.SurveyEvery}
	if l.every == 0 {
		l.every = time.Minute
	}
	if l.every < 0 || e.foreign { // others may stand there
		return nil
	}
	l.looked()
	return l
}

// looked sets the time of the next look: a random one, so that a crowd that came at once
// does not look at once.
func (l *lookout) looked() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = time.Now().Add(l.every - rand.N(l.every/4+1))
}

// soon is for a leader, whose last look may be long ago. The look is no part of a handover.
func (l *lookout) soon() *lookout {
	if l != nil {
		l.next = time.Now().Add(minSurveyEvery)
	}
	return l
}

func (l *lookout) due() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next
}

// look returns ErrOccupied if there are strangers. Whatever else is wrong, the wait will
// tell, which it must not keep from going on for long.
func (l *lookout) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cleanupTimeout)
	defer cancel()
	if _, _, err := l.e.find(ctx, l.s); errors.Is(err, ErrOccupied) {
		return err
	}
	return nil
}

// session is s for a strategy: while that waits, it looks from time to time. A candidate that
// finds strangers waits no more, so that it withdraws.
func (l *lookout) session(s *backend.Session) *backend.Session {
	if l == nil {
		return s
	}
	look := func(ctx context.Context) error {
		err := l.look(ctx)
		if err != nil {
			l.report(nil, err)
		}
		return err
	}
	return s.Around(backend.Layer{Call: func(ctx context.Context, c *backend.Call, next func(context.Context) error) error {
		switch c.Kind {
		case backend.CallAwait, backend.CallAwaitList:
			return l.watch(ctx, look, next)
		}
		return next(ctx)
	}})
}

// report tells of strangers that a candidate has found, which leads if t is not nil.
func (l *lookout) report(t *Term, err error) {
	l.e.log.Error("strangers found", "err", err)
	hooks := l.e.hooks
	if t != nil {
		hooks = hooks.own
	}
	hooks.occupied(t, err)
}

// watch waits, and calls look when it is time to. It returns the error of look, if there
// is one, and else that of the wait.
func (l *lookout) watch(ctx context.Context, look, wait func(context.Context) error) error {
	if l == nil {
		return wait(ctx)
	}
	for {
		until, cancel := context.WithDeadline(ctx, l.due())
		err := wait(until)
		isDue := until.Err() != nil && ctx.Err() == nil
		cancel()
		if err == nil || !isDue {
			return err
		}
		err = look(ctx)
		l.looked()
		if err != nil {
			return err
		}
	}
}
