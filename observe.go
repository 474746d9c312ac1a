package elector

import (
	"context"
	"errors"
	"iter"
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
