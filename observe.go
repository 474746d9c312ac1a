package elector

import (
	"context"
	"errors"
	"iter"
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
		began := time.Now()
		leader, err = e.election.Leader(ctx, s, dir)
		if err == nil || errors.Is(err, ErrNoLeader) {
			e.observations.sawLeader(leader, began)
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
	began, entryNo := time.Now(), e.observations.currentEntry()
	list, err := e.cfg.Strategy.Candidates(ctx, s, dir)
	for i, c := range list {
		// No other elector of this process has the ID, and none of another process has the session.
		list[i].Own = c.ID == e.id && c.Entry.Session == s.ID()
		if list[i].Own && err == nil {
			e.observations.sawPlace(i+1, entryNo, began)
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
			var reached time.Time
			goOn, err := e.observe(ctx, &reached, tell)
			if !goOn {
				return
			}
			if err == nil || ctx.Err() == nil && temporary(err) && e.backOff(ctx, &retry, reached, RetryEvent{What: WorkObserve, Err: err}) == nil {
				continue
			}
			e.noteError(ctx, err)
			yield(Leader{}, e.fail(caller, "observe", err))
			return
		}
	}
}

// observe follows one incarnation of the election in one session. It returns false if the consumer has
// stopped, and a nil error if the election was founded again. It sets reached when it reaches the
// election.
func (e *elector) observe(ctx context.Context, reached *time.Time, tell func(Leader) bool) (bool, error) {
	s, dir, record, err := e.locate(ctx)
	if err != nil {
		return true, err
	}
	*reached = time.Now()
	switch {
	case e.election.Foreign: // there is no record to follow
		return e.follow(ctx, s, dir, tell)
	case dir == "":
		observation := e.observations.add(s)
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
	observation := e.observations.add(s)
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
