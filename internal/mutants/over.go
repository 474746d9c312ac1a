package mutants

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/strategy"
)

// over is a session with some methods replaced: those that are set.
type over struct {
	*backend.Session
	deadline   func() time.Time
	state      func() backend.State
	awaitState func(context.Context, backend.State) (backend.State, error)
	calls      map[backend.CallKind]func(context.Context, *backend.Call) error
	// failed replaces the error of any call except Close.
	failed func(error) error
}

// worsened returns the session with its fault.
func worsened(s *backend.Session, worsen worsening) *backend.Session {
	o := &over{Session: s, calls: make(map[backend.CallKind]func(context.Context, *backend.Call) error)}
	worsen(s, o)
	return s.Around(backend.Layer{Life: o, Call: o.call})
}

func (o *over) Deadline() time.Time {
	if o.deadline != nil {
		return o.deadline()
	}
	return o.Session.Deadline()
}

func (o *over) State() backend.State {
	if o.state != nil {
		return o.state()
	}
	return o.Session.State()
}

func (o *over) AwaitState(ctx context.Context, prev backend.State) (backend.State, error) {
	if o.awaitState != nil {
		return o.awaitState(ctx, prev)
	}
	return o.Session.AwaitState(ctx, prev)
}

func (o *over) call(ctx context.Context, c *backend.Call, next func(context.Context) error) (err error) {
	if do, is := o.calls[c.Kind]; is {
		err = do(ctx, c)
	} else {
		err = next(ctx)
	}
	if err != nil && c.Kind != backend.CallClose && o.failed != nil {
		err = o.failed(err)
	}
	return err
}

// A worsening replaces some calls of a session.
type worsening = func(s *backend.Session, o *over)

// on replaces the calls of a kind.
func on(kind backend.CallKind, do func(context.Context, *backend.Session, *backend.Call) error) worsening {
	return func(s *backend.Session, o *over) {
		o.calls[kind] = func(ctx context.Context, c *backend.Call) error { return do(ctx, s, c) }
	}
}

// answering changes the results of successful calls.
func answering(change func(*backend.Call), kinds ...backend.CallKind) worsening {
	return func(s *backend.Session, o *over) {
		for _, kind := range kinds {
			o.calls[kind] = func(ctx context.Context, c *backend.Call) error {
				err := c.By(ctx, s)
				if err == nil {
					change(c)
				}
				return err
			}
		}
	}
}

// all combines several faults of one session.
func all(of ...worsening) worsening {
	return func(s *backend.Session, o *over) {
		for _, worsen := range of {
			worsen(s, o)
		}
	}
}

// A commit is the arguments of a Commit.
type commit struct {
	conditions []backend.Condition
	ops        []backend.Op
}

// by makes the session do the commit.
func (c commit) by(ctx context.Context, s *backend.Session) ([]backend.Entry, error) {
	return s.Commit(ctx, c.conditions, c.ops...)
}

// is reports whether its only op is of this kind.
func (c commit) is(kind backend.OpKind) bool { return len(c.ops) == 1 && c.ops[0].Kind == kind }

func commits(do func(context.Context, *backend.Session, commit) ([]backend.Entry, error)) worsening {
	return on(backend.CallCommit, func(ctx context.Context, s *backend.Session, c *backend.Call) (err error) {
		c.Entries, err = do(ctx, s, commit{c.Conditions, c.Ops})
		return err
	})
}

// asks changes the arguments of each commit. change gets a copy.
func asks(change func(context.Context, *backend.Session, *commit)) worsening {
	return commits(func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
		c = commit{slices.Clone(c.conditions), slices.Clone(c.ops)}
		change(ctx, s, &c)
		return c.by(ctx, s)
	})
}

// refused calls instead if a commit is refused with this error.
func refused(with error, instead func(context.Context, *backend.Session, commit) ([]backend.Entry, error)) worsening {
	return commits(func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
		made, err := c.by(ctx, s)
		if !errors.Is(err, with) {
			return made, err
		}
		return instead(ctx, s, c)
	})
}

func drops(drop func(context.Context, *backend.Session, backend.Entry) error) worsening {
	return on(backend.CallDiscard, func(ctx context.Context, s *backend.Session, c *backend.Call) error { return drop(ctx, s, c.Entry) })
}

func awaits(await func(context.Context, *backend.Session, []backend.Entry) ([]backend.Entry, error)) worsening {
	return on(backend.CallAwait, func(ctx context.Context, s *backend.Session, c *backend.Call) (err error) {
		c.Entries, err = await(ctx, s, c.KnownEntries)
		return err
	})
}

func closes(stop func(context.Context, *backend.Session) error) worsening {
	return on(backend.CallClose, func(ctx context.Context, s *backend.Session, _ *backend.Call) error { return stop(ctx, s) })
}

func failing(other func(error) error) worsening {
	return func(_ *backend.Session, o *over) { o.failed = other }
}

// told replaces one error by another.
func told(err, as error) worsening { return failing(instead(err, as)) }

// instead replaces one error by another, and leaves all others as they are.
func instead(of, other error) func(error) error {
	return func(err error) error {
		if errors.Is(err, of) {
			return other
		}
		return err
	}
}

// calls is the opener of a mutant that replaces some calls of a session.
func calls(worse ...worsening) *opener {
	var open opener = func(_ backend.Backend, s *backend.Session) *backend.Session {
		return worsened(s, all(worse...))
	}
	return &open
}

// inSession is the campaign of a mutant whose recipe is correct, but whose session is faulty.
func inSession(worsen worsening) campaigner {
	return func(ctx context.Context, c *strategy.Candidacy, inner campaign) (strategy.Claim, error) {
		with := *c
		with.Session = worsened(c.Session, worsen)
		return inner(ctx, &with)
	}
}

// claiming is the campaign of a mutant that changes a claim.
func claiming(worsen func(c *strategy.Claim)) campaigner {
	return func(ctx context.Context, c *strategy.Candidacy, inner campaign) (strategy.Claim, error) {
		claim, err := inner(ctx, c)
		if err == nil {
			worsen(&claim)
		}
		return claim, err
	}
}

// now reads the current entries under the keys of known.
func now(ctx context.Context, s *backend.Session, known []backend.Entry) ([]backend.Entry, error) {
	// An unknown entry differs from any that exists, so this returns at once.
	unknown := make([]backend.Entry, len(known))
	for i, e := range known {
		unknown[i] = backend.Unknown(e.Key)
	}
	return s.Await(ctx, unknown...)
}

func isNoEntry(err error) bool { return errors.Is(err, backend.ErrNoEntry) }
