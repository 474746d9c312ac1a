package mutants

import (
	"context"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
)

// over is a session of which the calls that are set are done otherwise.
type over struct {
	backend.Session
	id          func() string
	ttl         func() time.Duration
	deadline    func() time.Time
	state       func() backend.State
	awaitState  func(context.Context, backend.State) (backend.State, error)
	get         func(context.Context, string) (backend.Entry, error)
	survey      func(context.Context, string, func(backend.Entry) string) (backend.Entry, []string, error)
	list        func(context.Context, string) (backend.Listing, error)
	awaitList   func(context.Context, backend.Listing) (backend.Listing, error)
	predecessor func(context.Context, backend.Entry) (backend.Entry, error)
	await       func(context.Context, ...backend.Entry) ([]backend.Entry, error)
	commit      func(context.Context, []backend.Guard, ...backend.Op) ([]backend.Entry, error)
	drop        func(context.Context, backend.Entry) error
	close       func(context.Context) error
}

func (s *over) ID() string {
	if s.id != nil {
		return s.id()
	}
	return s.Session.ID()
}

func (s *over) TTL() time.Duration {
	if s.ttl != nil {
		return s.ttl()
	}
	return s.Session.TTL()
}

func (s *over) Deadline() time.Time {
	if s.deadline != nil {
		return s.deadline()
	}
	return s.Session.Deadline()
}

func (s *over) State() backend.State {
	if s.state != nil {
		return s.state()
	}
	return s.Session.State()
}

func (s *over) AwaitState(ctx context.Context, prev backend.State) (backend.State, error) {
	if s.awaitState != nil {
		return s.awaitState(ctx, prev)
	}
	return s.Session.AwaitState(ctx, prev)
}

func (s *over) Get(ctx context.Context, key string) (backend.Entry, error) {
	if s.get != nil {
		return s.get(ctx, key)
	}
	return s.Session.Get(ctx, key)
}

func (s *over) Survey(ctx context.Context, key string, known func(backend.Entry) string) (backend.Entry, []string, error) {
	if s.survey != nil {
		return s.survey(ctx, key, known)
	}
	return s.Session.Survey(ctx, key, known)
}

func (s *over) List(ctx context.Context, dir string) (backend.Listing, error) {
	if s.list != nil {
		return s.list(ctx, dir)
	}
	return s.Session.List(ctx, dir)
}

func (s *over) AwaitList(ctx context.Context, known backend.Listing) (backend.Listing, error) {
	if s.awaitList != nil {
		return s.awaitList(ctx, known)
	}
	return s.Session.AwaitList(ctx, known)
}

func (s *over) Predecessor(ctx context.Context, e backend.Entry) (backend.Entry, error) {
	if s.predecessor != nil {
		return s.predecessor(ctx, e)
	}
	return s.Session.Predecessor(ctx, e)
}

func (s *over) Await(ctx context.Context, known ...backend.Entry) ([]backend.Entry, error) {
	if s.await != nil {
		return s.await(ctx, known...)
	}
	return s.Session.Await(ctx, known...)
}

func (s *over) Commit(ctx context.Context, guards []backend.Guard, ops ...backend.Op) ([]backend.Entry, error) {
	if s.commit != nil {
		return s.commit(ctx, guards, ops...)
	}
	return s.Session.Commit(ctx, guards, ops...)
}

func (s *over) Drop(ctx context.Context, e backend.Entry) error {
	if s.drop != nil {
		return s.drop(ctx, e)
	}
	return s.Session.Drop(ctx, e)
}

func (s *over) Close(ctx context.Context) error {
	if s.close != nil {
		return s.close(ctx)
	}
	return s.Session.Close(ctx)
}

// calls is the opener of a mutant that does some calls of a session otherwise.
func calls(worsen func(s backend.Session, o *over)) *opener {
	var o opener = func(_ backend.Backend, _ backend.OpenOptions, s backend.Session) backend.Session {
		worse := &over{Session: s}
		worsen(s, worse)
		return worse
	}
	return &o
}

// inSession is the campaign of a mutant whose recipe is right but for what it makes of
// its session.
func inSession(worsen func(s backend.Session, o *over)) campaigner {
	return func(ctx context.Context, c *elector.Candidacy, inner campaign) (elector.Claim, error) {
		with, worse := *c, &over{Session: c.Session}
		worsen(c.Session, worse)
		with.Session = worse
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
func now(ctx context.Context, s backend.Session, known []backend.Entry) ([]backend.Entry, error) {
	// What is unknown differs from all there is, so that this returns at once.
	unknown := make([]backend.Entry, len(known))
	for i, e := range known {
		unknown[i] = backend.Unknown(e.Key)
	}
	return s.Await(ctx, unknown...)
}
