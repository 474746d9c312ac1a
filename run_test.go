package elector_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/strategy/fair"
)

// fake is an Elector whose terms are made by hand, as users can fake one.
type fake struct {
	elector.Elector
	token    uint64
	resigned []uint64
	end      context.CancelCauseFunc // of the current term
}

func (f *fake) Campaign(ctx context.Context) (*elector.Term, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f.token++
	token := f.token
	ctx, end := context.WithCancelCause(context.WithoutCancel(ctx))
	f.end = end
	return elector.NewTerm(elector.TermConfig{
		Token: token, Context: ctx,
		Valid: func() bool { return ctx.Err() == nil },
		Resign: func(context.Context) error {
			end(elector.ErrResigned)
			f.resigned = append(f.resigned, token)
			return nil
		},
	}), nil
}

func TestRunReturnsWhenTheWorkIsDone(t *testing.T) {
	f := &fake{}
	assert.NoError(t, elector.Run(t.Context(), f, func(context.Context, *elector.Term) error { return nil }))
	if len(f.resigned) != 1 {
		t.Errorf("resigned %v, want the one term", f.resigned)
	}
}

func TestRunCampaignsAgainAfterAnErrorAndPausesMoreAndMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		var at []time.Time
		err := elector.Run(t.Context(), f, func(context.Context, *elector.Term) error {
			if at = append(at, time.Now()); len(at) == 6 {
				return errors.Join(elector.ErrStop, errors.New("enough"))
			}
			return errors.New("cannot lead today")
		})
		if !errors.Is(err, elector.ErrStop) {
			t.Errorf("Run: %v, want ErrStop", err)
		}
		if len(f.resigned) != 6 {
			t.Errorf("resigned %v, want all six", f.resigned)
		}
		for i := 1; i < len(at); i++ {
			lo, hi := 50*time.Millisecond<<(i-1), 101*time.Millisecond<<(i-1)
			if pause := at[i].Sub(at[i-1]); pause < lo || pause > hi {
				t.Errorf("pause %d is %v, want %v to %v", i, pause, lo, hi)
			}
		}
	})
}

func TestRunCampaignsAgainAfterALostTerm(t *testing.T) {
	f := &fake{}
	calls := 0
	err := elector.Run(t.Context(), f, func(ctx context.Context, term *elector.Term) error {
		if calls++; calls == 3 {
			return nil
		}
		f.end(elector.ErrDeposed)
		<-ctx.Done()
		return context.Cause(ctx)
	})
	if err != nil || calls != 3 {
		t.Errorf("Run: %v after %d calls, want nil after 3", err, calls)
	}
}

func TestRunReleasesAfterTheLeadFunctionReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("shutting down")
		err := elector.Run(ctx, f, func(lead context.Context, term *elector.Term) error {
			cancel(why)
			<-lead.Done()
			if cause := context.Cause(lead); !errors.Is(cause, why) {
				t.Errorf("cause %v, want that of Run's context", cause)
			}
			time.Sleep(time.Hour) // ignores its context
			if len(f.resigned) != 0 || !term.Valid() {
				t.Error("the seat was released while the lead function ran")
			}
			return nil
		})
		if !errors.Is(err, why) || len(f.resigned) != 1 {
			t.Errorf("Run: %v, resigned %v; want the context's cause, and one", err, f.resigned)
		}
	})
}

func TestRunPassesAPanicOnAfterReleasing(t *testing.T) {
	f := &fake{}
	defer func() {
		if p := recover(); p != "boom" {
			t.Errorf("recovered %v, want the panic of the lead function", p)
		}
		if len(f.resigned) != 1 {
			t.Errorf("resigned %v, want the one term", f.resigned)
		}
	}()
	elector.Run(t.Context(), f, func(context.Context, *elector.Term) error { panic("boom") })
}

// Why lead failed is told: without it a candidate that can never lead takes turns in silence.
func TestRunTellsWhyLeadFailed(t *testing.T) {
	broken := errors.New("the disk is full")
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var causes []error
		e, err := elector.New(elector.Config{
			Backend: memory.New(memory.Options{}), Strategy: fair.New(), Election: "/e", ID: "a",
			Hooks: elector.Hooks{Ended: func(_ *elector.Term, cause error) {
				causes = append(causes, cause)
			}},
		})
		require.NoError(t, err)
		calls := 0
		err = elector.Run(ctx, e, func(ctx context.Context, term *elector.Term) error {
			if calls++; calls == 1 {
				return broken
			}
			stop()
			<-ctx.Done()
			return ctx.Err() // says nothing
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v, want the end of ctx", err)
		}
		assert.NoError(t, e.Close(context.Background()))
		if len(causes) != 2 || !errors.Is(causes[0], elector.ErrResigned) || !strings.Contains(causes[0].Error(), broken.Error()) || causes[1] != elector.ErrResigned {
			t.Errorf("terms ended with %v", causes)
		}
	})
}

// taken returns a service at whose paths there is something that is no entry.
func taken(b backend.Backend) backend.Backend {
	return backend.Intercept(b, func(ctx context.Context, c *backend.Call, next func(context.Context) error) error {
		if c.Kind == backend.CallCommit {
			return backend.ErrConflict
		}
		return next(ctx)
	})
}

// A candidate that cannot found the election, whatever it finds there, backs off and says so.
func TestNotFounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		tries := 0
		e, err := elector.New(elector.Config{
			Backend: taken(memory.New(memory.Options{})), Strategy: fair.New(), Election: "/e", ID: "a",
			Hooks: elector.Hooks{Retry: func(r elector.RetryEvent) {
				tries++
				if !errors.Is(r.Err, backend.ErrConflict) {
					t.Errorf("Retry: %v, want ErrConflict", r.Err)
				}
			}},
		})
		require.NoError(t, err)
		if _, err := e.Campaign(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Campaign: %v, want the end of ctx", err)
		}
		if tries == 0 || tries > 100 {
			t.Errorf("tried again %d times within a minute", tries)
		}
		assert.NoError(t, e.Close(context.Background()))
	})
}

// A process that was frozen may look at its term before the term's timer runs.
func TestATermThatIsNotValidHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &overdue{Backend: memory.New(memory.Options{}).Client("")}
		e, err := elector.New(elector.Config{Backend: b, Strategy: fair.New(), ID: "anna", Election: "/election"})
		require.NoError(t, err)
		defer func() { _ = e.Close(t.Context()) }()
		looks := []struct {
			name string
			look func(*elector.Term)
		}{
			{"Valid", func(term *elector.Term) {
				if term.Valid() {
					t.Error("valid after the deadline")
				}
			}},
			{"Resign", func(term *elector.Term) { _ = term.Resign(t.Context()) }},
		}
		for _, l := range looks {
			term, err := e.Campaign(t.Context())
			require.NoError(t, err)
			if !term.Valid() {
				t.Fatal("not valid at its beginning")
			}
			b.passed.Store(true)
			l.look(term)
			if cause := context.Cause(term.Context()); !errors.Is(cause, elector.ErrSessionLost) {
				t.Errorf("%s after the deadline: the term's end has the cause %v, want ErrSessionLost", l.name, cause)
			}
			b.passed.Store(false)
			if err := term.Resign(t.Context()); err != nil { // the session lives in truth
				t.Fatal(err)
			}
		}
	})
}

// overdue opens sessions whose deadline can be moved into the past, as a freeze does.
type overdue struct {
	backend.Backend
	passed atomic.Bool
}

func (o *overdue) Open(ctx context.Context, opts backend.OpenOptions) (*backend.Session, error) {
	return backend.Around(o.Backend, func(s *backend.Session) backend.Layer {
		return backend.Layer{Life: overdueLife{s, o}}
	}).Open(ctx, opts)
}

type overdueLife struct {
	backend.Life
	o *overdue
}

func (l overdueLife) Deadline() time.Time {
	if l.o.passed.Load() {
		return time.Now()
	}
	return l.Life.Deadline()
}
