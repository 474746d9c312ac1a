package mutants

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
)

// seatMutants break rules about the seat: how it is won, and given back.
func seatMutants() []Mutant {
	return []Mutant{
		{
			Name:    "win in the old session",
			Breaks:  "Who has won hears one question too late that its session was lost before.",
			Rules:   map[string][]string{"fair": {"loss/at-win"}},
			trusted: calls(lateNews),
		},
		{
			Name:    "resignation releases nothing",
			Breaks:  "Resign ends the term, and leaves its entry where it is.",
			Rules:   map[string][]string{"fair": {"leave/resign", "run/done", "run/error", "run/panic", "run/cancel"}},
			elector: onTerm(keepSeat),
		},
		{
			Name:   "resignation of a zombie deletes the successor",
			Breaks: "Resign removes whatever stands on the seat, in a new session if need be.",
			Rules:  map[string][]string{"unfair": {"leave/zombie", "fence/zombie-resign"}},
			elector: func(cfg elector.Config, e elector.Elector) elector.Elector {
				return onTerm(func(t *elector.Term, c *elector.TermConfig) {
					c.Resign = func(ctx context.Context) error { return errors.Join(t.Resign(ctx), vacate(ctx, cfg, t)) }
				})(cfg, e)
			},
		},
		{
			Name:   "unconfirmed resignation says nil",
			Breaks: "Resign returns nil though its context ended before the service had confirmed.",
			Rules:  map[string][]string{"fair": {"leave/resign-out-of-touch"}},
			elector: onTerm(func(t *elector.Term, c *elector.TermConfig) {
				c.Resign = func(ctx context.Context) error {
					_ = t.Resign(ctx) // that is the fault
					return nil
				}
			}),
		},
		{
			Name:   "term ends with the campaign's context",
			Breaks: "A term is given up when the context ends with which its Campaign was called.",
			Rules:  map[string][]string{"fair": {"term/outlives-campaign", "run/cancel"}},
			// It is cancelled, and campaigns again, at one instant.
			Endless: []string{"term/exclusion"},
			elector: campaigning(func(ctx context.Context, e elector.Elector) (*elector.Term, error) {
				t, err := e.Campaign(ctx)
				if err == nil {
					context.AfterFunc(ctx, func() { _ = t.Resign(context.WithoutCancel(ctx)) })
				}
				return t, err
			}),
		},
		{
			Name:   "second campaign waits",
			Breaks: "A Campaign beside another waits for its turn instead of being refused.",
			Rules:  map[string][]string{"fair": {"term/busy"}},
			elector: campaigning(func(ctx context.Context, e elector.Elector) (*elector.Term, error) {
				for {
					t, err := e.Campaign(ctx)
					if !errors.Is(err, elector.ErrBusy) {
						return t, err
					}
					select {
					case <-time.After(time.Second):
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				}
			}),
		},
		{
			Name:    "campaigns again while the lead function runs",
			Breaks:  "When a term is lost, the next campaign begins at once, before its caller has asked for it.",
			Rules:   map[string][]string{"fair": {"run/lost"}},
			elector: func(_ elector.Config, e elector.Elector) elector.Elector { return &eager{Elector: e} },
		},
		{
			Name:    "campaign deaf to its context",
			Breaks:  "A Campaign that waits goes on when its context ends.",
			Rules:   map[string][]string{"fair": {"cancel/no-session", "cancel/lost-reply", "cancel/out-of-touch"}},
			Endless: []string{"cancel/deadline"},
			elector: campaigning(func(ctx context.Context, e elector.Elector) (*elector.Term, error) {
				return e.Campaign(context.WithoutCancel(ctx))
			}),
		},
		{
			Name:   "close does not wait",
			Breaks: "Close returns before it has done its work.",
			Rules:  map[string][]string{"fair": {"close/any-time", "close/race", "close/stalled-hook"}},
			elector: closing(func(ctx context.Context, e elector.Elector) error {
				time.AfterFunc(time.Second, func() { _ = e.Close(context.WithoutCancel(ctx)) })
				return nil
			}),
		},
		{
			Name:   "failed removal forgotten",
			Breaks: "A session that could not remove an entry is closed without a word of it.",
			Rules:  map[string][]string{"fair": {"sharing/refused"}, "kafka": {"sharing/refused"}},
			trusted: calls(func(s *backend.Session, o *over) {
				var failed atomic.Bool
				o.drop = func(ctx context.Context, e backend.Entry) error {
					err := s.Discard(ctx, e)
					failed.Store(failed.Load() || err != nil)
					return err
				}
				o.close = func(ctx context.Context) error {
					err := s.Close(ctx)
					if failed.Load() {
						return nil
					}
					return err
				}
			}),
		},
		{
			Name:   "close says nothing",
			Breaks: "Close is content, whatever has become of the candidate's entry.",
			Rules:  map[string][]string{"fair": {"sharing/refused"}},
			elector: closing(func(ctx context.Context, e elector.Elector) error {
				_ = e.Close(ctx)
				return nil
			}),
		},
		{
			Name:    "close deaf to its context",
			Breaks:  "Close waits for the service, and for hooks, however long that takes.",
			Rules:   map[string][]string{"fair": {"close/out-of-touch"}},
			Endless: []string{"close/stalled-hook"},
			elector: closing(func(ctx context.Context, e elector.Elector) error {
				return e.Close(context.WithoutCancel(ctx))
			}),
		},
	}
}

// lateNews has the session look alive for one more look after it was lost.
func lateNews(s *backend.Session, o *over) {
	var mu sync.Mutex
	looks := 0
	alive := func() bool {
		mu.Lock()
		defer mu.Unlock()
		if s.State() == backend.Lost {
			looks++
		}
		return looks < 2
	}
	o.state = func() backend.State {
		if alive() {
			return backend.Live
		}
		return s.State()
	}
}

// campaigning is the elector of a mutant that campaigns otherwise.
func campaigning(campaign func(context.Context, elector.Elector) (*elector.Term, error)) electorOf {
	return func(_ elector.Config, e elector.Elector) elector.Elector {
		return &candidate{Elector: e, campaign: campaign}
	}
}

// closing is the elector of a mutant that closes otherwise.
func closing(stop func(context.Context, elector.Elector) error) electorOf {
	return func(_ elector.Config, e elector.Elector) elector.Elector { return &candidate{Elector: e, stop: stop} }
}

type candidate struct {
	elector.Elector
	campaign func(context.Context, elector.Elector) (*elector.Term, error)
	stop     func(context.Context, elector.Elector) error
}

func (c *candidate) Campaign(ctx context.Context) (*elector.Term, error) {
	if c.campaign == nil {
		return c.Elector.Campaign(ctx)
	}
	return c.campaign(ctx, c.Elector)
}

func (c *candidate) Close(ctx context.Context) error {
	if c.stop == nil {
		return c.Elector.Close(ctx)
	}
	return c.stop(ctx, c.Elector)
}

// onTerm is the elector of a mutant whose terms do something otherwise. What worsen
// gets does what the term does.
func onTerm(worsen func(t *elector.Term, c *elector.TermConfig)) electorOf {
	return campaigning(func(ctx context.Context, e elector.Elector) (*elector.Term, error) {
		t, err := e.Campaign(ctx)
		if err != nil {
			return nil, err
		}
		c := elector.TermConfig{
			Token: t.Token(), Context: t.Context(), Valid: t.Valid,
			Proclaim: t.Proclaim, Commit: t.Commit, Guard: t.Guard, Resign: t.Resign, Get: t.Get,
			Asked: t.Asked(), Request: t.Request, Prepare: t.Prepare,
		}
		worsen(t, &c)
		return elector.NewTerm(c), nil
	})
}

// keepSeat ends the term for its caller only.
func keepSeat(t *elector.Term, c *elector.TermConfig) {
	ctx, cancel := context.WithCancelCause(t.Context())
	c.Context = ctx
	c.Valid = func() bool { return ctx.Err() == nil && t.Valid() }
	c.Resign = func(context.Context) error {
		cancel(elector.ErrResigned)
		return nil
	}
}

// eager is a candidate that campaigns again by itself when it has lost a term.
type eager struct {
	elector.Elector
	mu   sync.Mutex
	next chan outcome
}

type outcome struct {
	term *elector.Term
	err  error
}

func (c *eager) Campaign(ctx context.Context) (*elector.Term, error) {
	c.mu.Lock()
	next := c.next
	c.next = nil
	c.mu.Unlock()
	var o outcome
	if next == nil {
		o.term, o.err = c.Elector.Campaign(ctx)
	} else {
		select {
		case o = <-next:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if o.err == nil {
		go c.follow(o.term)
	}
	return o.term, o.err
}

func (c *eager) follow(t *elector.Term) {
	<-t.Context().Done()
	if !errors.Is(context.Cause(t.Context()), elector.ErrSessionLost) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	next := make(chan outcome, 1)
	c.next = next
	go func() {
		term, err := c.Elector.Campaign(context.Background()) // ends with Close
		next <- outcome{term, err}
	}()
}

// vacate removes what stands on the seat of a term.
func vacate(ctx context.Context, cfg elector.Config, t *elector.Term) error {
	s, err := cfg.Backend.Open(ctx, backend.OpenOptions{TTL: cfg.TTL})
	if err != nil {
		return err
	}
	for _, g := range t.Guard().Conditions {
		var e backend.Entry
		if e, err = s.Get(ctx, g.Entry.Key); err == nil {
			_, err = s.Commit(ctx, nil, backend.Delete(e))
		}
	}
	if isNoEntry(err) {
		err = nil
	}
	return errors.Join(err, s.Close(ctx))
}
