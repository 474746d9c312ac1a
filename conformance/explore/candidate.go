package explore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/conformance/history"
	"github.com/elector-go/elector/strategy"
)

type phase string

const (
	campaigning phase = "campaigning"
	leading     phase = "leading"
	resigning   phase = "resigning"
	finished    phase = "finished"
)

// A candidate is one simulated process with an elector. It wants to lead a number of times, and does one
// fenced commit each time.
type candidate struct {
	world   *world
	letter  byte
	id      string
	client  *memory.Client
	app     *application
	elector elector.Elector

	// Written by the candidate's goroutines under world.mu, and read by the explorer when all goroutines
	// wait.
	session  *backend.Session // the latest
	sessions []*backend.Session
	opened   int
	flight   []*call            // released, and not returned
	results  map[string][]noted // of calls, by call.is
	phase    phase
	terms    []*term
	claim    backend.Entry // of the latest win
	begun    int           // terms that were reported as elected
	ended    int           // terms that were reported as ended
	led      int           // terms with a commit
	cancel   context.CancelFunc

	// Used by the explorer only.
	cut, crashed, cancelled bool
	healed                  func() // records that the link is back
	executed                int    // how often its wills were executed
}

// A term is one of the real terms, with what the candidate did in it.
type term struct {
	*elector.Term
	by    *candidate
	claim backend.Entry
	key   string // the key that it commits
	// outcome is the error that the commit returned.
	outcome  error
	returned bool
	resign   chan struct{} // closed to make it resign early
	asked    bool          // by the explorer
	heir     *candidate    // the candidate it was asked to go for, or nil
	over     chan struct{}
	read     history.Event // the last reading of key
}

func (c *candidate) String() string { return string([]byte{c.letter}) }

func newCandidate(w *world, i int) (*candidate, error) {
	id := strconv.Itoa(i)
	c := &candidate{world: w, letter: byte('a' + i), id: id, client: w.svc.Client(id), app: &application{}, phase: campaigning}
	var b backend.Backend = &process{c.client, c}
	if w.cfg.Backend != nil {
		b = w.cfg.Backend(b)
	}
	hooks := elector.Hooks{Elected: c.onElected, Ended: c.onEnded, Retry: c.onRetry}
	if w.rec != nil {
		hooks = w.rec.Hooks(c.String(), hooks)
	}
	var fit elector.Fit
	if w.cfg.Faults > 0 && slices.Contains(w.cfg.Kinds, Unfit) {
		fit = elector.Fit{Check: c.app.check, Every: checkEvery, Timeout: 1000 * ttl}
	}
	var err error
	c.elector, err = w.cfg.New(elector.Config{
		Backend: b, Strategy: watched(w.cfg.Strategy(), c), Election: Election, ID: id, TTL: ttl,
		// Any other wait would only make the explorer's time pass.
		RetryMin: time.Nanosecond, RetryMax: time.Nanosecond, SurveyEvery: -1,
		Hooks: hooks, Fit: fit,
	})
	if w.rec != nil && err == nil {
		c.elector = history.Record(c.elector, w.rec, c.String())
	}
	return c, err
}

// run is the candidate's program.
func (c *candidate) run() {
	w := c.world
	for c.led < w.cfg.Terms && !c.cancelled && w.ctx.Err() == nil {
		ctx, cancel := context.WithCancel(w.ctx)
		defer cancel()
		c.app.campaigns()
		w.set(func() { c.phase, c.cancel = campaigning, cancel })
		t, err := c.elector.Campaign(ctx)
		if err != nil {
			if ctx.Err() == nil {
				w.broken("campaign", "%s's campaign ended with: %v", c, err)
			}
			break
		}
		c.lead(t)
	}
	w.set(func() { c.phase = finished })
}

func (c *candidate) lead(of *elector.Term) {
	w := c.world
	t := &term{Term: of, by: c, claim: claimOf(of), key: fmt.Sprintf("%s/%s%d", commits, c, len(c.terms)+1), resign: make(chan struct{}), over: make(chan struct{})}
	w.set(func() { c.phase, c.terms = leading, append(c.terms, t) })
	var early sync.WaitGroup
	early.Go(func() {
		select {
		case <-t.over:
			return
		case <-t.Asked():
			if r, _ := t.Request(); r.To != "" && t.Transfer(w.ctx, r.To, nil) == nil {
				return
			} // if that fails the term resigns all the same
		case <-t.resign:
		}
		_ = t.Resign(w.ctx) // the error means that the release continues in the background
	})
	_, err := t.Commit(w.ctx, elector.Create(t.key, nil))
	w.set(func() {
		c.phase, t.outcome, t.returned = resigning, err, true
		if err == nil || errors.Is(err, elector.ErrIndeterminate) {
			c.led++
		} else if !errors.Is(err, elector.ErrDeposed) && w.ctx.Err() == nil {
			w.brokenLocked("campaign", "%s's commit in term %d ended with: %v", c, t.Token(), err)
		}
	})
	select {
	case <-t.resign:
	case <-t.Asked(): // it resigns when the heir is next
	default:
		_ = t.Resign(w.ctx)
	}
	close(t.over)
	early.Wait()
}

// claimOf returns the entry that holds the term's seat.
func claimOf(t *elector.Term) (claim backend.Entry) {
	for _, g := range t.Guard().Conditions {
		if g.Entry.Session != "" {
			claim = g.Entry
		}
	}
	return claim
}

func (c *candidate) onElected(t *elector.Term) {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	c.begun++
	c.world.elected(c, t.Token())
}

func (c *candidate) onEnded(t *elector.Term, cause error) {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	c.ended++
	if c.ended > c.begun {
		c.world.brokenLocked("edges", "%s's term %d is reported as ended, but was not reported as elected", c, t.Token())
	}
	c.world.tracef("      %s: term %d has ended: %v", c, t.Token(), cause)
}

// onRetry parks, so that a candidate that is out of touch does not retry for ever.
func (c *candidate) onRetry(elector.RetryEvent) {
	k := c.call(callRetry, "try again")
	c.world.park(c.world.ctx, k)
	c.world.landed(k)
	c.world.retried.Store(true)
}

// watched parks each win of a strategy before the elector hears of it, and checks that it is one.
func watched(s strategy.Strategy, c *candidate) strategy.Strategy {
	o := observed{s, c}
	_, stands := s.(strategy.UnfitStands)
	switch s := s.(type) {
	case identifier:
		return foreign{o, s}
	case transferrer:
		if stands {
			return ranking{transferring{o, s}}
		}
		return transferring{o, s}
	}
	if stands {
		return unfitStands{o}
	}
	return o
}

type observed struct {
	strategy.Strategy
	by *candidate
}

type foreign struct {
	observed
	identifier
}

type transferring struct {
	observed
	transferrer
}

type unfitStands struct{ observed }

func (unfitStands) UnfitStands() {}

// ranking is a strategy that transfers, and lets unfit candidates stand.
type ranking struct{ transferring }

func (ranking) UnfitStands() {}

// identifier is what a strategy.CustomLayout has besides the methods of every strategy.
type identifier interface {
	Identify(id, election string) (string, error)
	Landmark(election string) string
}

// transferrer is what a strategy.Transferrer has besides the methods of every strategy.
type transferrer interface {
	Transfer(context.Context, *strategy.Handover) error
}

func (o observed) Campaign(ctx context.Context, c *strategy.Candidacy) (strategy.Claim, error) {
	w := o.by.world
	w.set(func() {
		if !o.by.cut {
			// Its past results no longer matter: it starts from scratch.
			o.by.results = nil
		}
	})
	claim, err := o.Strategy.Campaign(ctx, c)
	if err != nil {
		return claim, err
	}
	if have := w.svc.Entry(claim.Entry.Key); have.Rev != claim.Entry.Rev || have.Session != c.Session.ID() {
		w.broken("own-entry", "%s wins without its entry: its claim is %s, but the service has %s", o.by, w.name(claim.Entry), w.name(have))
	}
	w.set(func() { o.by.claim = claim.Entry })
	k := o.by.call(callWin, "win")
	k.session = o.by.session
	w.park(ctx, k)
	w.note(k, nil, claim.Entry)
	return claim, nil
}
