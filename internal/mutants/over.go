package mutants

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
)

// over is a session of which the calls that are set are done otherwise.
type over struct {
	*backend.Session
	deadline    func() time.Time
	state       func() backend.State
	awaitState  func(context.Context, backend.State) (backend.State, error)
	get         func(context.Context, string) (backend.Entry, error)
	survey      func(context.Context, string, func(backend.Entry) string) (backend.Entry, []string, error)
	children    func(context.Context, string, int) ([]string, bool, error)
	list        func(context.Context, string) (backend.Listing, error)
	awaitList   func(context.Context, backend.Listing) (backend.Listing, error)
	predecessor func(context.Context, backend.Entry) (backend.Entry, error)
	await       func(context.Context, ...backend.Entry) ([]backend.Entry, error)
	commit      func(context.Context, []backend.Condition, ...backend.Op) ([]backend.Entry, error)
	drop        func(context.Context, backend.Entry) error
	close       func(context.Context) error
	// failed turns the error of any call but Close into another.
	failed func(error) error
}

// worse returns the session with these calls.
func (o *over) worse() *backend.Session {
	return o.Session.Around(backend.Layer{Life: o, Call: o.call})
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
	switch {
	case c.Kind == backend.CallGet && o.get != nil:
		c.Found, err = o.get(ctx, c.Key)
	case c.Kind == backend.CallSurvey && o.survey != nil:
		c.Found, c.Strangers, err = o.survey(ctx, c.Key, c.Known)
	case c.Kind == backend.CallChildren && o.children != nil:
		c.Children, c.More, err = o.children(ctx, c.Key, c.Most)
	case c.Kind == backend.CallList && o.list != nil:
		c.Listing, err = o.list(ctx, c.Key)
	case c.Kind == backend.CallAwaitList && o.awaitList != nil:
		c.Listing, err = o.awaitList(ctx, c.KnownListing)
	case c.Kind == backend.CallPredecessor && o.predecessor != nil:
		c.Found, err = o.predecessor(ctx, c.Entry)
	case c.Kind == backend.CallAwait && o.await != nil:
		c.Entries, err = o.await(ctx, c.KnownEntries...)
	case c.Kind == backend.CallCommit && o.commit != nil:
		c.Entries, err = o.commit(ctx, c.Conditions, c.Ops...)
	case c.Kind == backend.CallDiscard && o.drop != nil:
		err = o.drop(ctx, c.Entry)
	case c.Kind == backend.CallClose && o.close != nil:
		err = o.close(ctx)
	default:
		err = next(ctx)
	}
	if err != nil && c.Kind != backend.CallClose && o.failed != nil {
		err = o.failed(err)
	}
	return err
}

// A worsening replaces some calls of a session.
type worsening = func(s *backend.Session, o *over)

// A commit is what a Commit is asked to do.
type commit struct {
	conditions []backend.Condition
	ops        []backend.Op
}

// by has the session do it.
func (c commit) by(ctx context.Context, s *backend.Session) ([]backend.Entry, error) {
	return s.Commit(ctx, c.conditions, c.ops...)
}

// is tells whether its only op is of this kind.
func (c commit) is(kind backend.OpKind) bool { return len(c.ops) == 1 && c.ops[0].Kind == kind }

func commits(do func(context.Context, *backend.Session, commit) ([]backend.Entry, error)) worsening {
	return func(s *backend.Session, o *over) {
		o.commit = func(ctx context.Context, conditions []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
			return do(ctx, s, commit{conditions, ops})
		}
	}
}

// asks changes what each commit asks for. change gets a copy.
func asks(change func(context.Context, *backend.Session, *commit)) worsening {
	return commits(func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
		c = commit{slices.Clone(c.conditions), slices.Clone(c.ops)}
		change(ctx, s, &c)
		return c.by(ctx, s)
	})
}

// refused calls instead where a commit is refused with this error.
func refused(with error, instead func(context.Context, *backend.Session, commit) ([]backend.Entry, error)) worsening {
	return commits(func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
		made, err := c.by(ctx, s)
		if !errors.Is(err, with) {
			return made, err
		}
		return instead(ctx, s, c)
	})
}

func gets(get func(context.Context, *backend.Session, string) (backend.Entry, error)) worsening {
	return func(s *backend.Session, o *over) {
		o.get = func(ctx context.Context, key string) (backend.Entry, error) { return get(ctx, s, key) }
	}
}

func drops(drop func(context.Context, *backend.Session, backend.Entry) error) worsening {
	return func(s *backend.Session, o *over) {
		o.drop = func(ctx context.Context, e backend.Entry) error { return drop(ctx, s, e) }
	}
}

func precedes(predecessor func(context.Context, *backend.Session, backend.Entry) (backend.Entry, error)) worsening {
	return func(s *backend.Session, o *over) {
		o.predecessor = func(ctx context.Context, e backend.Entry) (backend.Entry, error) { return predecessor(ctx, s, e) }
	}
}

func awaits(await func(context.Context, *backend.Session, []backend.Entry) ([]backend.Entry, error)) worsening {
	return func(s *backend.Session, o *over) {
		o.await = func(ctx context.Context, known ...backend.Entry) ([]backend.Entry, error) {
			return await(ctx, s, known)
		}
	}
}

func failing(other func(error) error) worsening {
	return func(_ *backend.Session, o *over) { o.failed = other }
}

// told replaces an error by another.
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

// calls is the opener of a mutant that does some calls of a session otherwise.
func calls(worsen worsening) *opener {
	var open opener = func(_ backend.Backend, _ backend.OpenOptions, s *backend.Session) *backend.Session {
		o := &over{Session: s}
		worsen(s, o)
		return o.worse()
	}
	return &open
}

// inSession is the campaign of a mutant whose recipe is right but for what it makes of
// its session.
func inSession(worsen worsening) campaigner {
	return func(ctx context.Context, c *elector.Candidacy, inner campaign) (elector.Claim, error) {
		with, o := *c, &over{Session: c.Session}
		worsen(c.Session, o)
		with.Session = o.worse()
		return inner(ctx, &with)
	}
}

// claiming is the campaign of a mutant that makes something else of a claim.
func claiming(worsen func(c *elector.Claim)) campaigner {
	return func(ctx context.Context, c *elector.Candidacy, inner campaign) (elector.Claim, error) {
		claim, err := inner(ctx, c)
		if err == nil {
			worsen(&claim)
		}
		return claim, err
	}
}

// now reads what there is under the keys of known.
func now(ctx context.Context, s *backend.Session, known []backend.Entry) ([]backend.Entry, error) {
	// What is unknown differs from all there is, so that this returns at once.
	unknown := make([]backend.Entry, len(known))
	for i, e := range known {
		unknown[i] = backend.Unknown(e.Key)
	}
	return s.Await(ctx, unknown...)
}

func isNoEntry(err error) bool { return errors.Is(err, backend.ErrNoEntry) }
func isExists(err error) bool  { return errors.Is(err, backend.ErrExists) }
