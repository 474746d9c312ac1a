// Package restoretest tests elections on a service that is restored from a backup under live candidates.
package restoretest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy"
	"github.com/elector-go/elector/strategy/catalog"
)

// A Service is the service of the candidates.
type Service struct {
	Client  func(t *testing.T) backend.Backend  // a separate process
	Delete  func(t *testing.T, e backend.Entry) // by an operator
	BackUp  func(t *testing.T)
	Restore func(t *testing.T) // the backup, and for BehindItself writes of others with it

	// For UnderALeader: a separate process whose link can be cut; writes of others until the newest revision is
	// as wanted; and how many of these there are between the backup and the old leader's entry.
	Process func(t *testing.T) (b backend.Backend, cut, mend func())
	Others  func(t *testing.T, until func(newest uint64) bool)
	Between int
}

// BehindItself restores entries that are gone: their candidates have resigned or withdrawn, or an operator
// has deleted them. Their sessions are alive; nobody waits behind them. start starts a service per strategy.
func BehindItself(t *testing.T, start func(t *testing.T) Service) {
	t.Parallel()
	for i, item := range catalog.All() {
		t.Run(item.Strategy.Name(), func(t *testing.T) {
			if i > 1 { // the first is a queue, and the second has a seat
				servertest.Long(t, "a server for each strategy")
			}
			t.Parallel()
			behindItself(t, start(t), item.Strategy)
		})
	}
}

func behindItself(t *testing.T, s Service, strategy strategy.Strategy) {
	p := &play{terms: make(chan *elector.Term)}
	p.again()
	ctx, cancel := context.WithCancel(t.Context())
	var runs sync.WaitGroup
	defer runs.Wait()
	defer cancel()
	for i := range 3 {
		e := must.Get(elector.New(elector.Config{Backend: s.Client(t), Strategy: strategy, Election: "/restored", ID: fmt.Sprint(i)}))(t)
		t.Cleanup(func() { _ = e.Close(context.Background()) }) // a session may not have found its link again
		runs.Go(func() {
			for ctx.Err() == nil {
				p.stand(ctx, e)
			}
		})
	}
	term := p.leads(t)
	s.BackUp(t)
	for _, c := range term.Guard().Conditions {
		if c.Entry.Session != "" { // kafka's conditions include the epoch, too
			s.Delete(t, c.Entry)
		}
	}
	led := []*elector.Term{term, p.leads(t)} // the first one may not have heard of it before the service is restored
	p.again()
	change := func() {
		for _, term := range led { // in a restored service the latest reported term may be over, and another one not
			runs.Go(func() { _ = term.Resign(ctx) }) // it may be suspended or lost
		}
		led = append(led, p.leads(t))
	}
	for range 4 {
		change()
	}
	s.Restore(t)
	for range 6 {
		change()
	}
}

// A play is a series of terms.
type play struct {
	terms chan *elector.Term

	mu     sync.Mutex
	round  context.Context // of the campaigns
	cancel context.CancelFunc
}

// again makes the waiting candidates withdraw and stand again.
func (p *play) again() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cancel != nil {
		p.cancel()
	}
	p.round, p.cancel = context.WithCancel(context.Background())
}

// stand campaigns once.
func (p *play) stand(ctx context.Context, e elector.Elector) {
	p.mu.Lock()
	round := p.round
	p.mu.Unlock()
	campaign, cancel := context.WithCancel(round)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	term, err := e.Campaign(campaign)
	if err != nil {
		return // the session is lost, or ctx or the round has ended
	}
	select {
	case p.terms <- term:
	case <-ctx.Done():
		return
	}
	select {
	case <-term.Context().Done():
	case <-ctx.Done():
	}
	_ = term.Resign(ctx) // waits until that is done; the session may be lost
}

func (p *play) leads(t *testing.T) *elector.Term {
	t.Helper()
	return wait.Receive(t, "somebody leads", p.terms)
}
