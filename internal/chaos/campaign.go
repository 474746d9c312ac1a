package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/elector-go/elector/conformance/history"
	"github.com/elector-go/elector/internal/program"
)

const (
	candidates = 3

	logFile     = "unfenced.jsonl"
	faultsFile  = "faults.jsonl"
	historyFile = "history.jsonl"
	drawing     = "history.html" // if there are violations

	// calm is how long a campaign goes on without faults in the end.
	calm = time.Second
)

// A trial is one campaign of faults: what it is of.
type trial struct {
	backend  string
	servers  int
	strategy string
	faults   []string // groups of kinds
	seed     uint64
	length   time.Duration // of its plan
	program  string        // of candidates whose clock can be stepped, or ""
	broken   string        // how its candidates are; "" for the sound
	elector  string        // the command of which they are an elector run, or ""
	stock    bool          // the servers are as they are installed
}

func (t trial) String() string {
	return fmt.Sprintf("%s, %d server(s), %s, seed %d", t.backend, t.servers, t.strategy, t.seed)
}

// A campaign is a trial while it runs.
type campaign struct {
	trial
	log     io.Writer
	dir     string
	service *service
	plan    []step
	slots   []*slot
	agent   *agent // nil without companions
	clock   history.Clock
	faults  *history.Recorder

	mu       sync.Mutex
	children []*child
	met      []meeting // faults that were injected
	outages  []meeting // of the service; not before watch has ended
	wrong    []string  // what candidates did that no history tells
}

// A meeting is a fault as it came about.
type meeting struct {
	kind       *kind
	begin, end int64
}

// run does a trial and says what came of it. dir is a folder of its own, which is to hold
// all that was recorded.
func (t trial) run(ctx context.Context, dir string, log io.Writer) (res *result, err error) {
	service, err := t.startService()
	if err != nil {
		return nil, fmt.Errorf("%v: %w", t, err)
	}
	c := &campaign{trial: t, log: log, dir: dir, service: service}
	defer func() { err = errors.Join(err, c.close()) }()
	faults := slices.DeleteFunc(kindsFor(t.groups(), t.servers, t.program != ""), func(k *kind) bool {
		return k.forgets && service.fill == nil || k.leaves && service.leave == nil
	})
	c.plan = makePlan(t.seed, faults, service.timeout, t.length)
	err = c.do(ctx)
	var e *evidence
	if err == nil {
		e, err = c.collect(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("%v: %w", t, errors.Join(err, c.keepLogs()))
	}
	res = judge(t, e)
	if len(res.violations) > 0 {
		err = errors.Join(c.keepLogs(), e.history.Draw(filepath.Join(dir, drawing), history.Options{Patience: 10 * time.Second}))
	}
	return res, err
}

func (c *campaign) say(format string, args ...any) {
	fmt.Fprintf(c.log, "%v: %s\n", c.trial, fmt.Sprintf(format, args...))
}

// do lets the candidates run, injects the faults, and ends it all.
func (c *campaign) do(ctx context.Context) error {
	var err error
	if c.clock, err = history.Machine(); err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(c.dir, faultsFile))
	if err != nil {
		return err
	}
	defer file.Close()
	c.faults = history.NewWriter(file, c.clock, "controller")
	for i, s := range c.plan {
		c.say("plan, %d: %v", i+1, s)
	}
	number := candidates
	if c.wills() {
		number++ // half of them have the agent
		c.agent = &agent{campaign: c, socket: filepath.Join(c.dir, "agent.sock")}
		if err := c.agent.start(); err != nil {
			return err
		}
	}
	for i := range number {
		s, err := newSlot(c, strconv.Itoa(i+1))
		if err != nil {
			return err
		}
		c.slots = append(c.slots, s)
		if err := s.start(); err != nil {
			return err
		}
	}
	if err := c.underFaults(ctx); err != nil {
		return err
	}
	c.faults.Note(ended)
	c.end()
	return c.faults.Err()
}

// underFaults injects the faults and waits until a leader works after them.
func (c *campaign) underFaults(ctx context.Context) error {
	watching, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { c.watch(watching) })
	defer watch.Wait()
	defer stop()
	if err := c.awaitWork(ctx); err != nil {
		return err
	}
	if err := c.inject(ctx); err != nil {
		return err
	}
	if err := c.awaitWork(ctx); err != nil {
		return err
	}
	return program.Sleep(ctx, calm)
}

// watch finds when the service was away, whatever made it so, until ctx ends.
func (c *campaign) watch(ctx context.Context) {
	const every, patience = 250 * time.Millisecond, time.Second
	served := c.clock.Now() // it did then
	for away := false; ; {
		asked := c.clock.Now()
		_, err := c.service.Leader()
		answered := c.clock.Now()
		away = away || err != nil || answered-asked > int64(patience)
		over := program.Sleep(ctx, every) != nil
		if away && (err == nil || over) {
			c.outages = append(c.outages, meeting{outage, served, answered})
			c.faults.Add(history.Event{Kind: history.Fault, Text: outage.name, Call: served, Return: answered, Outcome: history.OK})
		}
		if err == nil {
			served, away = answered, false
		}
		if over {
			return
		}
	}
}

// ended is the note of the end of a campaign. What comes after is not judged by how long
// nobody leads.
const ended = "the campaign ends"

// inject does what is planned, and returns when all of it is undone.
func (c *campaign) inject(ctx context.Context) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var going sync.WaitGroup
	defer going.Wait()
	for _, s := range c.plan {
		if !s.Overlap {
			going.Wait()
		}
		if err := program.Sleep(ctx, s.Wait); err != nil {
			return err
		}
		end, err := c.begin(s)
		if err != nil {
			return err
		}
		going.Go(func() {
			if err := errors.Join(program.Sleep(ctx, s.For), end()); err != nil {
				fail(err)
			}
		})
	}
	going.Wait()
	return context.Cause(ctx)
}

// begin begins a fault; end ends it.
func (c *campaign) begin(s step) (end func() error, err error) {
	e := c.faults.Start(history.Event{Kind: history.Fault, Text: s.Kind.name})
	met, undo, err := s.Kind.begin(c, s)
	if err != nil {
		return nil, fmt.Errorf("begin %s: %w", s.Kind.name, err)
	}
	e.Text += ": " + met
	c.faults.Add(e)
	return func() error {
		if err := undo(); err != nil {
			return fmt.Errorf("end %s: %w", s.Kind.name, err)
		}
		e = c.faults.Finish(e, nil)
		c.say("done, in %v: %s", time.Duration(e.Return-e.Call).Round(time.Millisecond), e.Text)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.met = append(c.met, meeting{s.Kind, e.Call, e.Return})
		return nil
	}, nil
}

// awaitWork waits until a leader has worked since now. That it takes too long is for the
// history to tell; that it never happens is told here.
func (c *campaign) awaitWork(ctx context.Context) error {
	const bound = time.Minute
	since := c.clock.Now()
	for {
		var candidates []string
		for _, s := range c.slots {
			if s.child.workedAt() > since {
				return nil
			}
			if complaint := s.child.complaint(); complaint != "" {
				candidates = append(candidates, complaint)
			}
		}
		if c.clock.Now()-since > int64(bound) || len(candidates) == len(c.slots) {
			c.complain("progress: nobody has worked as a leader for %v, with no fault any more", bound)
			return nil
		}
		if err := program.Sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

// end ends the candidates: the first by killing it, the others in order.
func (c *campaign) end() {
	for i, s := range c.slots {
		var err error
		if i == 0 {
			err = s.child.kill()
		} else {
			err = s.child.leave(20 * time.Second)
		}
		if err != nil {
			c.complain("end: %v", err)
		}
	}
	if c.agent != nil {
		if err := c.agent.child.leave(20 * time.Second); err != nil {
			c.complain("end: %v", err)
		}
	}
	for _, x := range c.children {
		if complaint := x.complaint(); complaint != "" {
			c.complain("stuck: %s", complaint)
		}
	}
}

func (c *campaign) complain(format string, args ...any) {
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
}

// close ends what still runs.
func (c *campaign) close() error {
	var errs []error
	for _, x := range c.children {
		select {
		case <-x.exited:
		default:
			errs = append(errs, x.kill())
		}
		if x.companion != nil {
			_ = x.companion.Kill() // one that was frozen, and never woken
		}
	}
	for _, s := range c.slots {
		errs = append(errs, s.close())
	}
	return errors.Join(append(errs, c.service.close())...)
}

// keepLogs puts the servers' logs to what was recorded.
func (c *campaign) keepLogs() error {
	return os.WriteFile(filepath.Join(c.dir, "servers.log"), []byte(c.service.Log()), 0o644)
}
