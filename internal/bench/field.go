package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/program"
)

// A field is the candidates of one election, in this process.
type field struct {
	ctx        context.Context // ends with the cause when a candidate fails
	fail       context.CancelCauseFunc
	candidates []elector.Elector
	seats      []seat
	leader     win
	wins       chan win
	present    int // candidates that campaign or lead
	campaigns  sync.WaitGroup

	waiting atomic.Int64  // candidates that wait for a predecessor or for the seat
	changes atomic.Int64  // of waiting
	changed chan struct{} // holds one
	trouble atomic.Int64  // lost or suspended sessions, and campaigns begun anew
}

// win is a campaign that came to its end.
type win struct {
	elector elector.Elector
	term    *elector.Term
	at      time.Time
}

// newField makes n candidates, each with what open returns, and with the field's own
// hooks after the given changes. The caller closes it.
func newField(ctx context.Context, n int, s elector.Strategy, path string, open func() (seat, error), changes ...func(*elector.Hooks)) (*field, error) {
	f := &field{wins: make(chan win, n), changed: make(chan struct{}, 1)}
	f.ctx, f.fail = context.WithCancelCause(ctx)
	hooks := elector.Hooks{
		Stage: f.stage,
		Session: func(state backend.State) {
			if state != backend.Live {
				f.trouble.Add(1)
			}
		},
		Retry: func(error, int, time.Duration) { f.trouble.Add(1) },
	}
	for _, change := range changes {
		change(&hooks)
	}
	for i := range n {
		at, err := open()
		if err != nil {
			return nil, errors.Join(err, f.close())
		}
		f.seats = append(f.seats, at)
		e, err := elector.New(elector.Config{
			Backend: at.backend, Strategy: s, Election: path, ID: strconv.Itoa(i), Hooks: hooks,
			SurveyEvery: -1, // looks would be counted
		})
		if err != nil {
			return nil, errors.Join(err, f.close())
		}
		f.candidates = append(f.candidates, e)
	}
	return f, nil
}

func (f *field) stage(ev elector.StageEvent) {
	if ev.Stage != elector.StageReady {
		return
	}
	if ev.Completed {
		f.waiting.Add(-1)
	} else {
		f.waiting.Add(1)
	}
	f.changes.Add(1)
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// enter has one candidate campaign.
func (f *field) enter(e elector.Elector) {
	f.present++
	f.campaigns.Go(func() {
		term, err := e.Campaign(f.ctx)
		at := time.Now() // before anything else: this is what is measured
		if err != nil {
			if !errors.Is(err, elector.ErrClosed) {
				f.fail(err)
			}
			return
		}
		f.wins <- win{e, term, at}
	})
}

// next blocks until a campaign has been won.
func (f *field) next() (win, error) {
	ctx, cancel := context.WithTimeout(f.ctx, patience)
	defer cancel()
	select {
	case w := <-f.wins:
		return w, nil
	case <-ctx.Done():
		return win{}, fmt.Errorf("nobody was elected: %w", context.Cause(ctx))
	}
}

// enrol has the first candidate lead and then all others enter, up to join at a
// time, and returns how long that took.
func (f *field) enrol(join int) (time.Duration, error) {
	began := time.Now()
	f.enter(f.candidates[0])
	var err error
	if f.leader, err = f.next(); err != nil {
		return 0, err
	}
	for i, e := range f.candidates[1:] {
		if err := f.await(int64(i + 1 - join)); err != nil {
			return 0, fmt.Errorf("candidate %d enrols: %w", i+1, err)
		}
		f.enter(e)
	}
	err = f.await(int64(len(f.candidates) - 1))
	return time.Since(began), err
}

// await blocks until at least n candidates wait.
func (f *field) await(n int64) error {
	stuck := time.NewTimer(patience)
	defer stuck.Stop()
	for last := int64(-1); ; {
		now := f.waiting.Load()
		if now >= n {
			return nil
		}
		if now > last { // as long as there is progress, nothing is stuck
			last = now
			stuck.Reset(patience)
		}
		var err error
		select {
		case <-f.changed:
			continue
		case <-stuck.C:
			err = fmt.Errorf("no progress for %v", patience)
		case <-f.ctx.Done():
			err = context.Cause(f.ctx)
		}
		return fmt.Errorf("%d of %d candidates wait in the queue: %w", now, n, err)
	}
}

// idle blocks until all who have entered but the leader have been waiting, and
// nothing has moved, for d.
func (f *field) idle(d time.Duration) error {
	all := int64(max(f.present-1, 0))
	for {
		if err := f.await(all); err != nil {
			return err
		}
		before := f.changes.Load()
		if err := program.Sleep(f.ctx, d); err != nil {
			return err
		}
		if f.waiting.Load() == all && f.changes.Load() == before {
			return nil
		}
	}
}

// handover has the leader resign, and returns how long it took from just before
// that until the next one's campaign returned. The old leader can enter again.
func (f *field) handover() (time.Duration, elector.Elector, error) {
	old := f.leader
	f.present--
	began := time.Now()
	if err := old.term.Resign(f.ctx); err != nil {
		return 0, nil, err
	}
	next, err := f.next()
	if err != nil {
		return 0, nil, err
	}
	if next.elector == old.elector || next.term.Token() <= old.term.Token() {
		return 0, nil, fmt.Errorf("token %d follows token %d", next.term.Token(), old.term.Token())
	}
	f.leader = next
	return next.at.Sub(began), old.elector, nil
}

// close closes all candidates, many at a time, waits for their campaigns, and gives
// their connections up.
func (f *field) close() error {
	defer f.fail(nil)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(f.ctx), patience)
	defer cancel()
	const atATime = 64
	var (
		workers sync.WaitGroup
		mu      sync.Mutex
		errs    []error
		todo    = make(chan elector.Elector)
	)
	for range atATime {
		workers.Go(func() {
			for e := range todo {
				if err := e.Close(ctx); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
			}
		})
	}
	// From the tail, so that nobody becomes the next in line just to leave.
	for i := len(f.candidates) - 1; i >= 0; i-- {
		todo <- f.candidates[i]
	}
	close(todo)
	workers.Wait()
	f.campaigns.Wait()
	for _, at := range f.seats {
		if at.release != nil {
			at.release()
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("%d candidates did not close cleanly, the first: %w", len(errs), errs[0])
	}
	return nil
}
