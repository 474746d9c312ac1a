package main

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/crowd"
	"github.com/elector-go/elector/internal/program"
	"github.com/elector-go/elector/strategy"
)

// A field is the candidates of one election, in this process.
type field struct {
	*crowd.Crowd
	release  []func()         // close their connections
	resigned *crowd.Candidate // the leader before
	present  int              // candidates that campaign or lead
	trouble  atomic.Int64     // lost or suspended sessions, and repeated campaigns
}

// newField makes n candidates, each on the result of open. The caller closes the field.
func newField(ctx context.Context, n int, s strategy.Strategy, path string, open func() (seat, error)) (*field, error) {
	f := &field{Crowd: crowd.New(ctx, n, patience)}
	hooks := elector.Hooks{
		Session: func(_ string, state backend.State) {
			if state != backend.Live {
				f.trouble.Add(1)
			}
		},
		Retry: func(elector.RetryEvent) { f.trouble.Add(1) },
	}
	for i := range n {
		at, err := open()
		if err != nil {
			return nil, errors.Join(err, f.close())
		}
		f.release = append(f.release, at.release)
		if _, err := f.Add(elector.Config{
			Backend: at.backend, Strategy: s, Election: path, ID: strconv.Itoa(i), Hooks: hooks,
			SurveyEvery: -1, // surveys would be counted
		}); err != nil {
			return nil, errors.Join(err, f.close())
		}
	}
	return f, nil
}

// enter makes one candidate campaign.
func (f *field) enter(who *crowd.Candidate) {
	f.present++
	f.Enter(who)
}

// enrol makes the first candidate lead and then all others enter, up to join at a time, and returns how
// long that took.
func (f *field) enrol(join int) (time.Duration, error) {
	began := time.Now()
	f.present += len(f.Candidates)
	f.Enter(f.Candidates[0])
	if err := f.Succession(patience); err != nil {
		return 0, err
	}
	err := f.EnterAll(f.Candidates[1:], join)
	return time.Since(began), err
}

// idle blocks until all that have entered, except the leader, have been waiting without any change for d.
func (f *field) idle(d time.Duration) error {
	all := max(f.present-1, 0)
	for {
		if err := f.Await(all); err != nil {
			return err
		}
		before := f.Changes()
		if err := program.Sleep(f.Context(), d); err != nil {
			return err
		}
		if f.Waiting() == all && f.Changes() == before {
			return nil
		}
	}
}

// handover makes the leader resign, and returns the time from just before that until the next campaign has
// returned. The old leader can enter again.
func (f *field) handover() (time.Duration, error) {
	began := time.Now()
	if err := f.resign(); err != nil {
		return 0, err
	}
	err := f.Succession(patience)
	return f.Leader.At.Sub(began), err
}

// resign makes the leader leave the seat.
func (f *field) resign() error {
	f.present--
	f.resigned = f.Leader.Candidate
	return f.Leader.Term.Resign(f.Context())
}

// reenter makes the old leader enter again.
func (f *field) reenter() error {
	f.enter(f.resigned)
	return nil
}

// close closes all candidates, waits for their campaigns, and closes their connections.
func (f *field) close() error {
	err := f.LeaveAll(patience)
	for _, release := range f.release {
		release()
	}
	return err
}
