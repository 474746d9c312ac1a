package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance/history"
	"github.com/elector-go/elector/strategy/catalog"
)

const (
	election = "/chaos/election"
	register = "/chaos/register"
	filler   = "/chaos-filler" // nobody reads it

	// readEvery is how often a leader asks whether its term holds, workEvery the pause between writes, and
	// tellEvery how often the leader reports its writes.
	readEvery = 5 * time.Millisecond
	workEvery = 10 * time.Millisecond
	tellEvery = 200 * time.Millisecond

	// moment is the time from the check of Valid to the write to the unfenced log.
	moment = 8 * time.Millisecond

	// longestTerm limits terms that end by a resignation.
	longestTerm = 4 * time.Second

	// beforeQuiet is how long a leader works before it stops asking the service, and quietTerm the maximum
	// length of its term: longer than a server that the others have left continues to lead.
	beforeQuiet = time.Second
	quietTerm   = 8 * time.Second

	// hauntFor is how long the candidate tries to write for a term that is over.
	hauntFor = 5 * time.Second

	// retryMax limits the pauses between attempts to campaign.
	retryMax = 500 * time.Millisecond
)

// candidateOptions are the options of a candidate's process.
type candidateOptions struct {
	ID, Name string // of the candidate, and of this process
	URL      string
	Strategy string
	History  string // file of this process
	Log      string // unfenced, shared by all candidates
	Seed     uint64
	Quiet    bool   // in some terms it soon stops asking the service; all terms end
	Broken   string // how it must misbehave, for a campaign to find
	Elector  string // the command whose elector run it is, or "": see beCommand
	Wills    bool   // its sessions are ended when it dies: package lastwill
	Agent    string // the socket of the agent that does that, or "" for a companion
	Serves   bool   // it is that agent
}

// beCandidate is the candidate's process: it campaigns and leads until it is asked to end.
func beCandidate(options string) error {
	var o candidateOptions
	if err := json.Unmarshal([]byte(options), &o); err != nil {
		return err
	}
	if o.Elector != "" {
		return beCommand(o)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if o.Serves {
		return beAgent(ctx, o)
	}
	b, err := openBackend(ctx, o) // does not return in a companion
	if err != nil {
		return err
	}
	c, err := newCandidate(o, b)
	if err != nil {
		return err
	}
	go takeSteps()
	err = c.run(ctx)
	if err != nil {
		fmt.Println(saysFailed, err)
	}
	return err
}

// takeSteps steps this process's clock on each order, while the process lives.
func takeSteps() {
	for orders := bufio.NewScanner(os.Stdin); orders.Scan(); {
		if by, err := time.ParseDuration(orders.Text()); err == nil {
			stepClock(by)
			fmt.Println(saysClock, time.Now().Unix())
		}
	}
}

// A candidate is the one candidate of a process.
type candidate struct {
	options candidateOptions
	elector elector.Elector
	backend closer
	clock   history.Clock
	history *history.Recorder
	log     *os.File   // unfenced
	random  *rand.Rand // only for the goroutine that campaigns

	seq    atomic.Uint64  // of the values that it writes
	zombie sync.WaitGroup // writes after the end of terms
}

// closer is a Backend that the candidate closes.
type closer interface {
	backend.Backend
	io.Closer
}

// nobodyReads is the log of every candidate, but not of its companion. It is like a full pipe: writes block forever.
var nobodyReads = slog.New(slog.NewTextHandler(full{}, &slog.HandlerOptions{Level: slog.LevelDebug}))

type full struct{}

func (full) Write([]byte) (int, error) { select {} }

func newCandidate(o candidateOptions, b closer) (*candidate, error) {
	c := &candidate{options: o, backend: b, random: rand.New(rand.NewPCG(o.Seed, 0))}
	strategy, _ := catalog.Named(o.Strategy) // New refuses an unknown one
	var err error
	if c.clock, err = history.Machine(); err != nil {
		return nil, err
	}
	own, err := os.OpenFile(o.History, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	if c.log, err = os.OpenFile(o.Log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644); err != nil {
		return nil, err
	}
	c.history = history.NewWriter(own, c.clock, o.Name).In(election)
	c.history.LookEvery(readEvery)
	c.elector, err = elector.New(elector.Config{
		Backend: c.backend, Strategy: strategy.Strategy, Election: election, ID: o.ID,
		RetryMax: retryMax, Logger: nobodyReads,
		Hooks: c.history.Hooks(o.ID, elector.Hooks{}),
	})
	return c, err
}

func (c *candidate) run(ctx context.Context) error {
	var err error
	for ctx.Err() == nil && err == nil {
		err = c.campaign(ctx)
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	// An unconfirmed Close is not our fault; others find what is left.
	_ = c.elector.Close(closing)
	c.zombie.Wait()
	_ = c.backend.Close()
	if ctx.Err() != nil {
		err = nil
	}
	if failed := c.history.Err(); failed != nil {
		return failed
	}
	return err
}

// campaign wins a term and leads until the term is over, or resigns after a while.
func (c *candidate) campaign(ctx context.Context) error {
	call := c.history.Start(history.Event{Kind: history.Campaign, Candidate: c.options.ID})
	t, err := c.elector.Campaign(ctx)
	if err != nil {
		c.history.Finish(call, err)
		return err
	}
	if c.options.Broken == brokenLiar {
		t = lie(t)
	}
	call.Token, call.Session = t.Token(), t.Guard().Session.ID()
	call = c.history.Finish(call, nil)
	watched := c.history.Watch(call, t)
	fmt.Println(saysLeads, t.Token())
	c.lead(ctx, watched)

	// As elector.Run does: the work has stopped.
	resigning, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_ = watched.Resign(resigning) // continues in the background
	fmt.Println(saysOver, t.Token())
	c.zombie.Go(func() { c.haunt(ctx, t) })
	return nil
}

// lead works until the term or ctx is over, or for a random time.
func (c *candidate) lead(ctx context.Context, t *elector.Term) {
	leading, cancel := context.WithCancel(t.Context())
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	if c.options.Quiet && c.random.IntN(2) > 0 {
		resign := time.AfterFunc(quietTerm, cancel)
		defer resign.Stop()
		working, done := context.WithTimeout(leading, beforeQuiet)
		defer done()
		c.work(working, t)
		c.keepQuiet(leading, t)
		return
	}
	if c.random.IntN(3) > 0 || c.options.Quiet || c.options.Broken != "" {
		resign := time.AfterFunc(time.Duration(c.random.Int64N(int64(longestTerm))), cancel)
		defer resign.Stop()
	}
	c.work(leading, t)
}
