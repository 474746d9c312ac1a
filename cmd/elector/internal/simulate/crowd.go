package simulate

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing/synctest"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/backend/meter"
)

// A crowd is the candidates of one election.
type crowd struct {
	cfg      Config
	ctx      context.Context // of the campaigns
	stop     context.CancelFunc
	server   *server
	service  *memory.Service
	observer *backend.Session // sees the service as it is, without the model
	all      []*candidate
	wins     chan win
	running  sync.WaitGroup // campaigns

	// Guarded by server.mu.
	waiting int // candidates that wait for somebody to go
	failed  error
}

// A candidate is one of the crowd. After a crash it is a new process under the same number.
type candidate struct {
	number  int
	process *process
	meter   *meter.Backend
	elector elector.Elector
	spent   meter.Counts // by its processes that have crashed

	// Its last arrival.
	rank    int // among all arrivals
	arrived time.Time
	changes int // of leader before it
}

// win is a campaign that has returned.
type win struct {
	by   *candidate
	term *elector.Term
	at   time.Time
}

func newCrowd(cfg Config, s *server) (*crowd, error) {
	c := &crowd{cfg: cfg, server: s, service: memory.New(memory.Options{}), wins: make(chan win, cfg.N)}
	c.ctx, c.stop = context.WithCancel(context.Background())
	var err error
	c.observer, err = c.service.Open(c.ctx, backend.OpenOptions{})
	for i := 0; i < cfg.N && err == nil; i++ {
		c.all = append(c.all, &candidate{number: i})
		err = c.start(c.all[i])
	}
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// start starts a candidate's process.
func (c *crowd) start(who *candidate) (err error) {
	who.process = &process{Client: c.service.Client(strconv.Itoa(who.number)), server: c.server, number: who.number}
	who.meter = meter.New(who.process, nil)
	who.elector, err = elector.New(elector.Config{
		Backend: who.meter, Strategy: c.cfg.Strategy, Election: "/simulated",
		ID: strconv.Itoa(who.number), TTL: c.cfg.TTL,
		SurveyEvery: -1, // nobody else stands there, and looks would be counted
		Hooks: elector.Hooks{
			Stage: c.stage,
			Retry: func(r elector.RetryEvent) { c.fail(fmt.Errorf("a campaign had to begin anew: %w", r.Err)) },
		},
	})
	return err
}

func (c *crowd) stage(e elector.StageEvent) {
	if e.Stage != elector.StageReady {
		return
	}
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	if e.Completed {
		c.waiting--
	} else {
		c.waiting++
	}
	if c.server.moving == 0 {
		c.server.changed.Broadcast()
	}
}

// fail has settle give up.
func (c *crowd) fail(err error) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	if c.failed == nil {
		c.failed = err
		c.stop() // so that next gives up, too
	}
	c.server.changed.Broadcast()
}

func (c *crowd) failure() error {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	return c.failed
}

// enter has a candidate campaign.
func (c *crowd) enter(who *candidate) {
	c.running.Go(func() {
		term, err := who.elector.Campaign(c.ctx)
		at := time.Now()
		if err == nil {
			c.wins <- win{who, term, at}
		} else if c.ctx.Err() == nil {
			c.fail(err)
		}
	})
}

// next blocks until a campaign has been won.
func (c *crowd) next() (win, error) {
	select {
	case w := <-c.wins:
		return w, nil
	case <-c.ctx.Done():
		return win{}, c.failure()
	}
}

// join has the first candidate lead, and all others behind it, in their order.
func (c *crowd) join() (win, error) {
	c.enter(c.all[0])
	leader, err := c.next()
	if err != nil {
		return win{}, err
	}
	if err := c.settle(0); err != nil {
		return win{}, err
	}
	gate := make(chan struct{})
	c.server.mu.Lock()
	c.server.gate = gate
	c.server.mu.Unlock()
	for _, who := range c.all[1:] {
		c.enter(who)
		synctest.Wait() // it has written, and is at the gate
	}
	c.server.mu.Lock()
	c.server.gate = nil
	c.server.mu.Unlock()
	close(gate)
	return leader, c.settle(c.cfg.N - 1)
}

// settle blocks until so many candidates wait and nothing is under way.
func (c *crowd) settle(waiting int) error {
	s := c.server
	still := func() bool { return s.moving == 0 && c.waiting == waiting || c.failed != nil }
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		for !still() {
			s.changed.Wait()
		}
		notices := time.Until(s.heard)
		s.mu.Unlock()
		time.Sleep(notices)
		synctest.Wait() // what follows from the last answer has begun
		s.mu.Lock()
		if still() && !time.Now().Before(s.heard) {
			return c.failed
		}
	}
}

// crash cuts a leader's process off, and returns when the service has dropped its entries,
// and how long that took.
func (c *crowd) crash(leader *candidate) (unnoticed time.Duration, err error) {
	began, dead := time.Now(), leader.process.session
	leader.process.Suspend()
	for _, key := range dead.owned { // it writes nothing any more
		if _, err := c.observer.Await(c.ctx, c.service.Entry(key)); err != nil {
			return 0, err
		}
	}
	dead.dropped()
	return time.Since(began), nil
}

// bury ends a crashed process, and starts the next one of the same candidate.
func (c *crowd) bury(who *candidate) error {
	if err := who.elector.Close(c.ctx); err != nil && !errors.Is(err, backend.ErrUnavailable) {
		return err
	}
	who.spent = who.spent.Add(who.meter.Counts())
	return c.start(who)
}

// counts are what all candidates have asked for so far.
func (c *crowd) counts() (sum meter.Counts) {
	for _, who := range c.all {
		sum = sum.Add(who.spent).Add(who.meter.Counts())
	}
	return sum
}

// close ends all campaigns first, lest each that leaves wakes those who follow.
func (c *crowd) close() error {
	c.stop()
	c.running.Wait()
	var errs []error
	for _, who := range c.all {
		if who.elector != nil {
			errs = append(errs, who.elector.Close(context.Background()))
		}
	}
	if c.observer != nil {
		errs = append(errs, c.observer.Close(context.Background()))
	}
	return errors.Join(errs...)
}
