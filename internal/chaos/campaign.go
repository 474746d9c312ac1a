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

	// calm is how long a campaign continues without faults at its end.
	calm = time.Second
)

// A trial describes one campaign of faults.
type trial struct {
	backend  string
	servers  int
	strategy string
	faults   []string // groups of kinds
	seed     uint64
	length   time.Duration // of the plan
	program  string        // of candidates whose clock can be stepped, or ""
	broken   string        // how its candidates are broken; "" for sound ones
	elector  string        // the elector command whose run its candidates are, or ""
	stock    bool          // the servers have the settings of an installation
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
	met      []meeting // injected faults
	outages  []meeting // of the service; only after watch has ended
	wrong    []string  // faults of candidates that are not in the history
}

// A meeting is a fault that was injected.
type meeting struct {
	kind       *kind
	begin, end int64
}

// run does a trial and returns its result. All that is recorded goes to dir, a folder for this trial only.
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

// do lets the candidates run, injects the faults, and ends everything.
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
		number++ // half of them use the agent
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

// watch finds when the service was away, for any reason, until ctx ends.
func (c *campaign) watch(ctx context.Context) {
	const every, patience = 250 * time.Millisecond, time.Second
	served := c.clock.Now() // it serves at the start
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

// ended is the note at the end of a campaign. Time without a leader after it is not judged.
const ended = "the campaign ends"

// inject does the plan, and returns when all faults have been undone.
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

// awaitWork waits until a leader has worked since now. The history shows whether that took too long; an
// error reports that it never happened.
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

// end ends the candidates: it kills the first, and stops the others in order.
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

// close ends all processes that still run.
func (c *campaign) close() error {
	var errs []error
	for _, x := range c.children {
		select {
		case <-x.exited:
		default:
			errs = append(errs, x.kill())
		}
		if x.companion != nil {
			_ = x.companion.Kill() // it may have been frozen and never resumed
		}
	}
	for _, s := range c.slots {
		errs = append(errs, s.close())
	}
	return errors.Join(append(errs, c.service.close())...)
}

// keepLogs adds the servers' logs to the recordings.
func (c *campaign) keepLogs() error {
	return os.WriteFile(filepath.Join(c.dir, "servers.log"), []byte(c.service.Log()), 0o644)
}
