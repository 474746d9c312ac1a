package electionrules

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/meter"
	"github.com/elector-go/elector/conformance/history"
	"github.com/elector-go/elector/conformance/kit"
	"github.com/elector-go/elector/internal/asynclog/asynclogtest"
)

// A candidate is one elector under test, with everything that it reported.
type candidate struct {
	a      *arena
	id     string
	client *kit.Client
	tap    *tap
	real   elector.Elector
	e      elector.Elector // real, with its terms recorded

	cut bool // its link was cut at some time

	mu       sync.Mutex
	log      []report
	releases []func() // of holds, called at the end
	holds    stops[elector.StageEvent]
	calls    stops[hookKind]
	atWin    meter.Counts // counts when it began its last term
}

// A report is one call of a hook.
type report struct {
	what  hookKind
	token uint64
	err   error
	state backend.State
	stage elector.StageEvent
	asked elector.Request
}

type hookKind int

const (
	isElected hookKind = iota + 1
	isEnded
	isSession
	isRetry
	isOccupied
	isAside
	isStage
	isAsked
)

// stand makes a candidate in a process of its own.
func (a *arena) stand(set ...func(*elector.Config)) *candidate {
	return a.standIn(a.process(), set...)
}

// brief makes the session time out after TTL, for a rule that waits for that.
func (a *arena) brief(cfg *elector.Config) { cfg.TTL = a.Service.TTL }

// strict ends the term at the first disconnect.
func strict(cfg *elector.Config) { cfg.OnSuspend = elector.StepDownOnSuspend }

func (a *arena) id(n int) string {
	if a.cfg.ID != nil {
		return a.cfg.ID(n)
	}
	return fmt.Sprintf("c%d", n)
}

// standIn makes a candidate in process at.
func (a *arena) standIn(at *kit.Client, set ...func(*elector.Config)) *candidate {
	c := &candidate{a: a, client: at, cut: a.outage, tap: &tap{Backend: meter.New(at.Backend, nil)}}
	cfg := elector.Config{
		Backend:  c.tap,
		Strategy: a.cfg.Strategy,
		Election: a.path,
		ID:       a.id(len(a.candidates) + 1),
		TTL:      a.Lasting(),
		RetryMin: 10 * time.Millisecond,
		RetryMax: max(a.Service.TTL/4, 10*time.Millisecond),
		// After a survey a wait starts again, which would hide that a notice was missed.
		SurveyEvery: -1,
		// Nothing waits for the log.
		Logger: asynclogtest.Stuck(a.T),
	}
	cfg.Value = []byte("value of " + cfg.ID)
	for _, f := range set {
		f(&cfg)
	}
	c.id = cfg.ID
	name, rec := a.name(c.id), a.hist.In(cfg.Election)
	rec.LookEvery(min(a.Service.TTL/50, 20*time.Millisecond))
	cfg.Hooks = rec.Hooks(name, c.hooks(cfg.Hooks))
	e, err := a.cfg.New(at, cfg)
	a.Must("New", err)
	c.real, c.e = e, history.Record(e, rec, name)
	a.candidates = append(a.candidates, c)
	a.T.Cleanup(c.end)
	return c
}

// end closes the candidate if its rule has failed. Otherwise finish has done it.
func (c *candidate) end() {
	if c.a.ended {
		return
	}
	c.unfault()
	shut(c.real.Close) // the rule has failed already, and has said why
}

// unfault undoes what the rule has done to the process.
func (c *candidate) unfault() {
	c.mu.Lock()
	releases := c.releases
	c.releases = nil
	c.mu.Unlock()
	for _, release := range releases {
		release()
	}
	if c.client.Resume != nil {
		c.client.Resume()
	}
}

// atEnd makes undo run at the end, unless the rule has called once before.
func (c *candidate) atEnd(undo func()) (once func()) {
	once = sync.OnceFunc(undo)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.releases = append(c.releases, once)
	return once
}

// hooks returns hooks that record what is reported, and then call the rule's own.
func (c *candidate) hooks(own elector.Hooks) elector.Hooks {
	return elector.Hooks{
		Elected: func(t *elector.Term) {
			c.a.hist.Look()
			c.record(report{what: isElected, token: t.Token()}, "elected, token %d", t.Token())
			c.calls.pass(isElected)
		},
		Ended: func(t *elector.Term, cause error) {
			c.record(report{what: isEnded, token: t.Token(), err: cause}, "ended, token %d: %v", t.Token(), cause)
			c.calls.pass(isEnded)
		},
		Session: func(_ string, state backend.State) {
			c.record(report{what: isSession, state: state}, "session is %v", state)
		},
		Retry: func(r elector.RetryEvent) {
			c.record(report{what: isRetry, err: r.Err}, "%v: attempt %d failed, next in %v: %v", r.What, r.Attempt, r.Wait, r.Err)
		},
		Asked: func(t *elector.Term, r elector.Request) {
			c.record(report{what: isAsked, token: t.Token(), asked: r}, "token %d is asked to go %v", t.Token(), r)
			c.calls.pass(isAsked)
		},
		Occupied: func(_ *elector.Term, err error) {
			c.record(report{what: isOccupied, err: err}, "%v", err)
		},
		Aside: func(why error) {
			c.record(report{what: isAside, err: why}, "stands aside: %v", why)
		},
		Stage: func(e elector.StageEvent) {
			e.Term = nil // otherwise the report would keep it in memory
			c.record(report{what: isStage, stage: e}, "%v", e)
			if begun(elector.StageElected)(e) {
				c.mu.Lock()
				c.atWin = c.tap.Counts()
				c.mu.Unlock()
			}
			c.holds.pass(e)
		},
	}.Join(own)
}

func (c *candidate) record(r report, format string, args ...any) {
	c.mu.Lock()
	c.log = append(c.log, r)
	c.mu.Unlock()
	c.a.hist.note("%s: "+format, append([]any{c.id}, args...)...)
}

// reports returns what these hooks have reported so far.
func (c *candidate) reports(hooks ...hookKind) (all []report) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.log {
		if slices.Contains(hooks, r.what) {
			all = append(all, r)
		}
	}
	return all
}

// stoodAside checks how often the candidate has stood aside, and why.
func (c *candidate) stoodAside(times int, why error) {
	// The heir may lead before the candidate that made way hears that its own commit is done.
	c.a.Until(fmt.Sprintf("%s has stood aside %d times", c.id, times), func() bool { return len(c.reports(isAside)) >= times })
	all := c.reports(isAside)
	for _, r := range all {
		c.a.Refused("why "+c.id+" stands aside", r.err, why)
	}
	c.a.FailIf(len(all) != times, "%s has stood aside %d times, want %d", c.id, len(all), times)
}

// heard checks that the hook Asked was called once, with this request.
func (c *candidate) heard(r elector.Request) {
	// It is called beside the term, which may have ended by now.
	c.a.Until(c.id+" reports that it is asked to go", func() bool { return len(c.reports(isAsked)) > 0 })
	all := c.reports(isAsked)
	c.a.FailIf(len(all) != 1 || all[0].asked != r, "Asked was called with %+v, want %+v once", all, r)
}

// transitions finds terms that were not reported once each, in order: elected, ended, elected, ended …
func (c *candidate) transitions() string {
	var leads uint64
	for _, r := range c.reports(isElected, isEnded) {
		switch {
		case r.what == isElected && leads != 0:
			return fmt.Sprintf("%s reported Elected of %d before Ended of %d", c.id, r.token, leads)
		case r.what == isElected:
			leads = r.token
		case r.token != leads:
			return fmt.Sprintf("%s reported Ended of %d without Elected before", c.id, r.token)
		case r.err == nil:
			return fmt.Sprintf("%s reported Ended of %d without a cause", c.id, r.token)
		default:
			leads = 0
		}
	}
	if leads != 0 {
		return fmt.Sprintf("%s never reported Ended of %d", c.id, leads)
	}
	return ""
}

// sawState waits for a report of the session's state.
func (c *candidate) sawState(state backend.State) {
	c.a.Until(fmt.Sprintf("%s reports that its session is %v", c.id, state), func() bool {
		return slices.ContainsFunc(c.reports(isSession), func(r report) bool { return r.state == state })
	})
}

// isIn waits until state is the session's last reported state.
func (c *candidate) isIn(state backend.State) {
	c.a.Until(fmt.Sprintf("the session of %s is %v", c.id, state), func() bool {
		all := c.reports(isSession)
		return len(all) > 0 && all[len(all)-1].state == state
	})
}

// holdAt stops the candidate in its Stage hook at the next event that at selects.
func (c *candidate) holdAt(at func(elector.StageEvent) bool) *stop { return hold(c, &c.holds, at) }

// holdIn stops the candidate in its next call of Elected, Asked or Ended.
func (c *candidate) holdIn(hook hookKind) *stop {
	return hold(c, &c.calls, func(k hookKind) bool { return k == hook })
}

// stall holds the next call that at selects on its way to the backend, or back.
func (c *candidate) stall(at func(passing) bool) *stop { return hold(c, &c.tap.stalls, at) }

// begun and completed select stage events.
func begun(s elector.Stage) func(elector.StageEvent) bool {
	return func(e elector.StageEvent) bool { return e.Stage == s && !e.Completed }
}

func completed(s elector.Stage) func(elector.StageEvent) bool {
	return func(e elector.StageEvent) bool { return e.Stage == s && e.Completed }
}
