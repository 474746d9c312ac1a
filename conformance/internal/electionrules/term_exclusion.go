package electionrules

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/elector-go/elector/backend"
)

// termExclusion has several candidates come, lead and go at random, while links
// break at random.
func termExclusion(a *arena) {
	seed := rand.Uint64()
	a.hist.note("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, seed))
	rounds, ttl := 8, a.Service.TTL
	pace := ttl / 4 // at which candidates come and go
	if a.Service.Virtual {
		rounds, pace = 120, ttl
	}
	var all []*candidate
	for i := range 5 {
		if i == 4 { // two candidates in one process
			all = append(all, a.standIn(all[0].client, a.brief))
			continue
		}
		all = append(all, a.stand(a.brief))
	}
	ctx, halt := context.WithCancel(context.Background())
	all[0].atEnd(halt)
	var wg sync.WaitGroup
	for _, c := range all {
		own := rand.New(rand.NewPCG(seed, rnd.Uint64()))
		wg.Go(func() { come(ctx, c, own, pace) })
	}
	release := []func(){}
	for range rounds {
		c := all[rnd.IntN(4)]
		switch n := rnd.IntN(6); {
		case n == 0 && c.client.HoldWakeups != nil:
			release = append(release, a.freeze(c))
		case n == 1 && c.client.LoseReply != nil:
			c.client.LoseReply(backend.OpKind(rnd.IntN(int(backend.OpDelete)) + 1))
		case n == 2 && c.client.LoseRequest != nil:
			c.client.LoseRequest(backend.OpKind(rnd.IntN(int(backend.OpDelete)) + 1))
		case n == 3:
			a.resume(c)
		default:
			a.suspend(c)
		}
		// The faults are what the rule is about, and they last.
		time.Sleep(time.Duration(rnd.Int64N(int64(ttl) / 2)))
		if rnd.IntN(3) == 0 {
			for _, c := range all {
				c.client.Resume()
			}
			for _, r := range release {
				r()
			}
			release = nil
		}
	}
	for _, c := range all[:4] {
		a.resume(c)
	}
	for _, r := range release {
		r()
	}
	now := a.hist.count()
	a.Until("two more terms begin after the last fault", func() bool { return a.hist.count() >= now+2 })
	halt()
	a.begin("the last candidate", func(context.Context) error { wg.Wait(); return nil }).succeeds()
}

// come campaigns, leads and leaves until ctx ends.
func come(ctx context.Context, c *candidate, rnd *rand.Rand, pace time.Duration) {
	for ctx.Err() == nil {
		trying, cancel := context.WithTimeout(ctx, pace/4+time.Duration(rnd.Int64N(int64(3*pace))))
		t, err := c.e.Campaign(trying)
		cancel()
		if err != nil {
			if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
				c.a.hist.blame("Campaign of %s: %v", c.id, err)
				return
			}
			continue
		}
		select {
		case <-t.Context().Done():
		case <-ctx.Done():
		case <-time.After(time.Duration(rnd.Int64N(int64(pace) / 3))):
		}
		if rnd.IntN(2) == 0 { // its session may be lost first
			select {
			case <-t.Context().Done():
			case <-ctx.Done():
			case <-time.After(pace):
			}
		}
		leaving, cancel := context.WithTimeout(context.Background(), pace)
		_ = t.Resign(leaving) // out of touch it is not confirmed
		cancel()
	}
}
