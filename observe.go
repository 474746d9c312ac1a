package elector

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector/backend"
)

func (e *elector) Leader(ctx context.Context) (Leader, error) {
	caller := ctx
	ctx, cancel := e.bind(ctx)
	defer cancel()
	s, dir, _, err := e.look(ctx)
	var leader Leader
	if err == nil {
		asked := time.Now()
		leader, err = e.leader(ctx, s, dir)
		if err == nil || errors.Is(err, ErrNoLeader) {
			e.sights.led(leader, asked)
		}
	}
	return leader, e.fail(caller, "leader of", err)
}

// leader reads who leads in a directory. dir is "" if there is none.
func (e *elector) leader(ctx context.Context, s *backend.Session, dir string) (leader Leader, err error) {
	if dir == "" {
		return Leader{}, ErrNoLeader
	}
	err = ErrNoLeader
	for leader, err = range e.cfg.Strategy.Observe(ctx, s, dir) {
		break // the first is the current one
	}
	if err == nil && leader.Vacant() {
		err = ErrNoLeader
	}
	return leader, err
}

func (e *elector) Candidates(ctx context.Context) ([]Candidate, error) {
	caller := ctx
	ctx, cancel := e.bind(ctx)
	defer cancel()
	s, dir, _, err := e.look(ctx)
	if err != nil || dir == "" {
		return nil, e.fail(caller, "candidates of", err)
	}
	asked, stint := time.Now(), e.sights.stintNow()
	list, err := e.cfg.Strategy.Candidates(ctx, s, dir)
	for i, c := range list {
		// No other elector of this process has the ID, and none of another process has the session.
		list[i].Own = c.ID == e.id && c.Entry.Session == s.ID()
		if list[i].Own && err == nil {
			e.sights.placed(i+1, stint, asked)
		}
	}
	return list, e.fail(caller, "candidates of", err)
}

func (e *elector) Observe(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		caller := ctx
		ctx, cancel := e.bind(ctx)
		defer cancel()
		var (
			last  Leader
			told  bool
			retry backoff
		)
		tell := func(l Leader) bool {
			if told && l.equal(last) {
				return true
			}
			last, told = l, true
			return yield(l, nil)
		}
		for {
			var entered time.Time
			goOn, err := e.observe(ctx, &entered, tell)
			if !goOn {
				return
			}
			if err == nil || ctx.Err() == nil && temporary(err) && e.backOff(ctx, &retry, entered, RetryEvent{What: WorkObserve, Err: err}) == nil {
				continue
			}
			e.amiss(ctx, err)
			yield(Leader{}, e.fail(caller, "observe", err))
			return
		}
	}
}

// observe follows one incarnation of the election in one session. It returns false if the consumer has
// stopped, and a nil error if the election was founded again. It sets entered when it reaches the
// election.
func (e *elector) observe(ctx context.Context, entered *time.Time, tell func(Leader) bool) (bool, error) {
	s, dir, record, err := e.look(ctx)
	if err != nil {
		return true, err
	}
	*entered = time.Now()
	switch {
	case e.foreign: // there is no record to follow
		return e.follow(ctx, s, dir, tell)
	case dir == "":
		sight := e.sights.follow(s)
		defer sight.end()
		sight.sees(Leader{}, 0)
		if !tell(Leader{}) {
			return false, nil
		}
		sight.waits()
		_, err := s.Await(ctx, record)
		return true, err
	}
	// Look again when the record changes or cannot be watched.
	following, cancel := context.WithCancel(ctx)
	changed := make(chan error, 1)
	go func() {
		err := errEnded
		defer func() { cancel(); changed <- err }()
		_, err = s.Await(following, record)
	}()
	goOn, err := e.follow(following, s, dir, tell)
	stopped := following.Err() != nil
	cancel()
	if awaited := <-changed; stopped && ctx.Err() == nil {
		err = awaited
	}
	return goOn, err
}

// follow reports who leads in a directory until the strategy yields an error, or tell returns false.
func (e *elector) follow(ctx context.Context, s *backend.Session, dir string, tell func(Leader) bool) (bool, error) {
	sight := e.sights.follow(s)
	defer sight.end()
	for leader, err := range e.cfg.Strategy.Observe(ctx, s, dir) {
		if err != nil {
			return true, err
		}
		sight.sees(leader, 0)
		if !tell(leader) {
			return false, nil
		}
		sight.waits()
	}
	return true, errStopped
}

var errStopped = errors.New("strategy stopped observing without an error")

// look finds the election without founding it. It fails while no server can be reached.
func (e *elector) look(ctx context.Context) (s *backend.Session, dir string, record backend.Entry, err error) {
	if s, err = e.session(ctx); err == nil {
		err = e.notBefore(ctx, s)
	}
	if err == nil {
		dir, record, err = e.read(ctx, s)
	}
	return s, dir, record, err
}

// notBefore ensures that s shows nothing older than an earlier session has shown. Otherwise an observer
// would report a vacancy that ended long ago.
func (e *elector) notBefore(ctx context.Context, s *backend.Session) error {
	e.mu.Lock()
	behind := e.behind == s.ID()
	e.mu.Unlock()
	if !behind {
		return nil
	}
	if err := e.catchUp(ctx, s); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.behind == s.ID() {
		e.behind = ""
	}
	return nil
}

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
