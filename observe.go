package elector

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/delay"
	"github.com/elector-go/elector/internal/election"
)

func (e *elector) Leader(ctx context.Context) (Leader, error) {
	caller := ctx
	ctx, cancel := e.bind(ctx)
	defer cancel()
	s, dir, _, err := e.locate(ctx)
	var leader Leader
	if err == nil {
		asked := time.Now()
		leader, err = e.election.Leader(ctx, s, dir)
		if err == nil || errors.Is(err, ErrNoLeader) {
			e.observations.sawLeader(leader, asked)
		}
	}
	return leader, e.fail(caller, "leader of", err)
}

func (e *elector) Candidates(ctx context.Context) ([]Candidate, error) {
	caller := ctx
	ctx, cancel := e.bind(ctx)
	defer cancel()
	s, dir, _, err := e.locate(ctx)
	if err != nil || dir == "" {
		return nil, e.fail(caller, "candidates of", err)
	}
	asked, entryNo := time.Now(), e.observations.currentEntry()
	list, err := e.cfg.Strategy.Candidates(ctx, s, dir)
	for i, c := range list {
		// No other elector of this process has the ID, and none of another process has the session.
		list[i].Own = c.ID == e.id && c.Entry.Session == s.ID()
		if list[i].Own && err == nil {
			e.observations.sawPlace(i+1, entryNo, asked)
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
			retry delay.Backoff
		)
		tell := func(l Leader) bool {
			if told && l.ID == last.ID && l.Token == last.Token && string(l.Value) == string(last.Value) {
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
			e.noteError(ctx, err)
			yield(Leader{}, e.fail(caller, "observe", err))
			return
		}
	}
}

// observe follows one incarnation of the election in one session. It returns false if the consumer has
// stopped, and a nil error if the election was founded again. It sets entered when it reaches the
// election.
func (e *elector) observe(ctx context.Context, entered *time.Time, tell func(Leader) bool) (bool, error) {
	s, dir, record, err := e.locate(ctx)
	if err != nil {
		return true, err
	}
	*entered = time.Now()
	switch {
	case e.election.Foreign: // there is no record to follow
		return e.follow(ctx, s, dir, tell)
	case dir == "":
		observation := e.observations.follow(s)
		defer observation.end()
		observation.sees(Leader{}, 0)
		if !tell(Leader{}) {
			return false, nil
		}
		observation.waits()
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
	observation := e.observations.follow(s)
	defer observation.end()
	for leader, err := range e.cfg.Strategy.Observe(ctx, s, dir) {
		if err != nil {
			return true, err
		}
		observation.sees(leader, 0)
		if !tell(leader) {
			return false, nil
		}
		observation.waits()
	}
	return true, election.ErrStopped
}

// locate finds the election without founding it. It fails while no server can be reached.
func (e *elector) locate(ctx context.Context) (s *backend.Session, dir string, record backend.Entry, err error) {
	if s, err = e.session(ctx); err == nil {
		err = e.notBefore(ctx, s)
	}
	if err == nil {
		dir, record, err = e.election.Read(ctx, s)
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
	if err := e.election.CatchUp(ctx, s); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.behind == s.ID() {
		e.behind = ""
	}
	return nil
}

// minSurveyEvery leaves a wait the time to find out that it need not wait: each survey makes the wait begin
// again with its first read.
const minSurveyEvery = time.Second

// A surveyor looks for strangers in the election from time to time, while a candidate waits for other
// things. A change that the candidate waits for causes no survey and no extra request.
type surveyor struct {
	e     *elector
	s     *backend.Session
	every time.Duration

	mu    sync.Mutex
	next  time.Time
	under atomic.Bool // a survey is running
}

// newSurveyor returns nil if no surveys are configured.
func (e *elector) newSurveyor(s *backend.Session) *surveyor {
	v := &surveyor{e: e, s: s, every: e.cfg.SurveyEvery}
	if v.every == 0 {
		v.every = time.Minute
	}
	if v.every < 0 || e.election.Foreign { // with a custom layout, others may stand there
		return nil
	}
	v.schedule()
	return v
}

// schedule sets the time of the next survey. The time is random, so that candidates that came at once do not
// survey at once.
func (v *surveyor) schedule() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.next = time.Now().Add(v.every - rand.N(v.every/4+1))
}

// soon schedules the first survey of a leader, whose last one may be long ago. It does not delay a
// handover.
func (v *surveyor) soon() *surveyor {
	if v != nil {
		v.next = time.Now().Add(minSurveyEvery)
	}
	return v
}

func (v *surveyor) due() time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.next
}

// survey returns ErrOccupied if there are strangers. The wait reports any other error, so survey must not hold
// it up for long.
func (v *surveyor) survey(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cleanupTimeout)
	defer cancel()
	if _, _, err := v.e.election.Find(ctx, v.s); errors.Is(err, ErrOccupied) {
		return err
	}
	return nil
}

// session returns s for a strategy, with surveys from time to time while the strategy waits. If a survey finds
// strangers, the wait fails, so that the candidate withdraws.
func (v *surveyor) session(s *backend.Session) *backend.Session {
	if v == nil {
		return s
	}
	survey := func(ctx context.Context) error {
		err := v.survey(ctx)
		if err != nil {
			v.report(nil, err)
		}
		return err
	}
	return s.Around(backend.Layer{Call: func(ctx context.Context, c *backend.Call, next func(context.Context) error) error {
		switch c.Kind {
		case backend.CallAwait, backend.CallAwaitList:
			return v.watch(ctx, survey, next)
		}
		return next(ctx)
	}})
}

// report reports strangers that a candidate has found. The candidate leads if t is not nil.
func (v *surveyor) report(t *Term, err error) {
	v.e.log.Error("strangers found", "err", err)
	hooks := v.e.hooks
	if t != nil {
		hooks = hooks.own
	}
	hooks.occupied(t, err)
}

// watch waits, and calls survey when one is due. It returns the error of survey, if there is one, and
// otherwise the result of the wait.
func (v *surveyor) watch(ctx context.Context, survey, wait func(context.Context) error) error {
	if v == nil {
		return wait(ctx)
	}
	for {
		until, cancel := context.WithDeadline(ctx, v.due())
		err := wait(until)
		isDue := until.Err() != nil && ctx.Err() == nil
		cancel()
		if err == nil || !isDue {
			return err
		}
		err = survey(ctx)
		v.schedule()
		if err != nil {
			return err
		}
	}
}
