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

// occupied returns the error of a candidate that finds strangers, or nil if there are none.
func occupied(strangers []string) error {
	const most = 5
	var named []string
	for i, key := range strangers {
		if i == most {
			named = append(named, fmt.Sprintf("and %d more", len(strangers)-most))
			break
		}
		named = append(named, fmt.Sprintf("%.200q", key)) // somebody else chose the name
	}
	if named == nil {
		return nil
	}
	return fmt.Errorf("%w: %s: take another path, or stop them and delete what is left", ErrOccupied, strings.Join(named, ", "))
}

// minSurveyEvery leaves a wait the time to find out that it need not wait: each look makes the wait begin
// again with its first read.
const minSurveyEvery = time.Second

// A lookout looks for strangers from time to time, while a candidate waits for other things. A change that
// the candidate waits for causes no look and no extra request.
type lookout struct {
	e     *elector
	s     *backend.Session
	every time.Duration

	mu    sync.Mutex
	next  time.Time
	under atomic.Bool // a look is running
}

// newLookout returns nil if no looks are configured.
func (e *elector) newLookout(s *backend.Session) *lookout {
	l := &lookout{e: e, s: s, every: e.cfg.SurveyEvery}
	if l.every == 0 {
		l.every = time.Minute
	}
	if l.every < 0 || e.foreign { // with a custom layout, others may stand there
		return nil
	}
	l.looked()
	return l
}

// looked sets the time of the next look. The time is random, so that candidates that came at once do not
// look at once.
func (l *lookout) looked() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = time.Now().Add(l.every - rand.N(l.every/4+1))
}

// soon schedules the first look of a leader, whose last look may be long ago. It does not delay a
// handover.
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

// look returns ErrOccupied if there are strangers. The wait reports any other error, so look must not hold
// it up for long.
func (l *lookout) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cleanupTimeout)
	defer cancel()
	if _, _, err := l.e.find(ctx, l.s); errors.Is(err, ErrOccupied) {
		return err
	}
	return nil
}

// session returns s for a strategy, with looks from time to time while the strategy waits. If a look finds
// strangers, the wait fails, so that the candidate withdraws.
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

// report reports strangers that a candidate has found. The candidate leads if t is not nil.
func (l *lookout) report(t *Term, err error) {
	l.e.log.Error("strangers found", "err", err)
	hooks := l.e.hooks
	if t != nil {
		hooks = hooks.own
	}
	hooks.occupied(t, err)
}

// watch waits, and calls look when a look is due. It returns the error of look, if there is one, and
// otherwise the result of the wait.
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
