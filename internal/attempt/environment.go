package attempt

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// What is late by more than a quarter of the session timeout has starved a session. It is
// compared with what backends leave as slack between two heartbeats. The shortest is that of
// backend/zookeeper: its window, of seven eighths of the timeout, is moved to an instant up to
// half a timeout ago, so a standstill of three eighths may cost the session. The control asks
// every tenth, so it notices any standstill of seven twentieths, which is less. A smaller share
// would excuse more failures than the environment can have caused.
const (
	mostShare  = 4  // of the timeout, late
	tickShare  = 50 // of the timeout, between two ticks of the clock
	askShare   = 10 // of the timeout, between two requests of the control
	pauseShare = 20 // of the timeout, before a control that lost its session opens another
)

// opening is how long Observe waits for the control's first session.
const opening = 15 * time.Second

// A Control keeps one session of a service's own client library, the bare client, until the
// session is lost or ctx ends. conformance.Service.Control has the contract.
type Control func(ctx context.Context, answered func()) error

// An Environment is the machine and the servers that tests run on, as far as it can be told
// from two observers: a clock, which notices how late its own ticks come, and a control.
type Environment struct {
	clock   *pulse
	session *pulse // nil without a control
}

// Observe observes the environment of tests that ask for the session timeout, until t ends.
// Without a control, nil, there is only the clock. It blocks until the control has a session,
// or for 15 s: tests that fail without one are void.
func Observe(t testing.TB, timeout time.Duration, control Control) *Environment {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var observers sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		observers.Wait()
	})
	e := newEnvironment(timeout, control, func(spell) {})
	first := e.observe(ctx, &observers, control)
	select {
	case <-first:
	case <-time.After(opening):
		t.Logf("the bare client has no session after %v", opening)
	}
	return e
}

func newEnvironment(timeout time.Duration, control Control, tell func(spell)) *Environment {
	e := &Environment{clock: newPulse(timeout, timeout/tickShare, "this process stood still: its clock ticked", tell)}
	if control != nil {
		e.session = newPulse(timeout, timeout/askShare, "the servers stood still: they answered the bare client", tell)
	}
	return e
}

// observe starts the observers. The channel it returns is closed when the control has a
// session.
func (e *Environment) observe(ctx context.Context, observers *sync.WaitGroup, control Control) <-chan struct{} {
	first := make(chan struct{})
	once := sync.OnceFunc(func() { close(first) })
	observers.Go(func() { e.clock.tick(ctx) })
	if control == nil {
		once()
		return first
	}
	observers.Go(func() {
		e.session.keep(ctx, e.session.timeout/pauseShare, func(ctx context.Context, answered func()) error {
			return control(ctx, func() {
				answered()
				once()
			})
		})
	})
	return first
}

// Trouble tells what was wrong in a stretch of time, "" if nothing was. It blocks until the
// observers can tell, for less than half the session timeout.
func (e *Environment) Trouble(from, to time.Time) string {
	if why := e.Starved(from, to); why != "" || e.session == nil {
		return why
	}
	return e.session.trouble(from, to)
}

// Starved is Trouble by the clock alone: for tests that take the servers away themselves.
func (e *Environment) Starved(from, to time.Time) string { return e.clock.trouble(from, to) }

// Announce observes the environment of a test's whole program, and prints each stretch of
// time in which something was wrong, until stop is called. internal/testrun tries those tests
// again that failed at such a time. It does not block; stop blocks until the observers have
// ended.
func Announce(timeout time.Duration, control Control) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	e := newEnvironment(timeout, control, func(s spell) { fmt.Println(s) })
	var observers sync.WaitGroup
	e.observe(ctx, &observers, control)
	return func() {
		cancel()
		observers.Wait()
		e.clock.end()
		if e.session != nil {
			e.session.end()
		}
	}
}

// A pulse is a series of beats that should come at regular intervals. Whatever stands still
// has none.
type pulse struct {
	timeout, every time.Duration
	late           string      // what a beat that is late says
	tell           func(spell) // of each that is over

	mu     sync.Mutex
	last   time.Time
	lost   error // the session was lost after the last beat
	spells []spell
}

// A spell is a stretch of time in which something was wrong.
type spell struct {
	from, to time.Time
	why      string
}

// Announcement begins the line that Announce prints of a spell: it is followed by the two
// instants, as time.RFC3339Nano has them, and the reason.
const Announcement = "environment:"

func (s spell) String() string {
	return fmt.Sprint(Announcement, " ", s.from.Format(time.RFC3339Nano), " ", s.to.Format(time.RFC3339Nano), " ", s.why)
}

func newPulse(timeout, every time.Duration, late string, tell func(spell)) *pulse {
	return &pulse{timeout: timeout, every: every, late: late, tell: tell, last: time.Now()}
}

func (p *pulse) tick(ctx context.Context) {
	ticker := time.NewTicker(p.every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			p.beat()
		case <-ctx.Done():
			return
		}
	}
}

// keep opens one session after the other.
func (p *pulse) keep(ctx context.Context, pause time.Duration, control Control) {
	for {
		err := control(ctx, p.beat)
		if ctx.Err() != nil {
			return
		}
		p.lose(err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

func (p *pulse) beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.note(now)
	p.last, p.lost = now, nil
}

// note keeps what has been wrong since the last beat, if anything. The caller holds mu.
func (p *pulse) note(now time.Time) {
	if why := p.wrong(now); why != "" {
		s := spell{p.last, now, why}
		p.spells = append(p.spells, s)
		p.tell(s)
	}
}

// end notes what is wrong when nobody observes any more.
func (p *pulse) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.note(time.Now())
}

func (p *pulse) lose(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		err = errors.New("the control returned")
	}
	p.lost = err
}

// line is an error's text in one line, for reports.
func line(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// wrong tells what has been wrong since the last beat. The caller holds mu.
func (p *pulse) wrong(now time.Time) string {
	if p.lost != nil {
		return fmt.Sprintf("the bare client lost its session, too: %s", line(p.lost))
	}
	late := now.Sub(p.last) - p.every
	switch {
	case late > p.timeout:
		return fmt.Sprintf("%s %v late, longer than the session timeout, %v", p.late, late.Round(time.Millisecond), p.timeout)
	case late > p.timeout/mostShare:
		return fmt.Sprintf("%s %v late, more than a quarter of the session timeout, %v", p.late, late.Round(time.Millisecond), p.timeout)
	}
	return ""
}

// trouble waits for a beat after the stretch, or until one is late: what has caused a failure at
// the very end may not have been noticed yet.
func (p *pulse) trouble(from, to time.Time) string {
	for {
		why, known := p.look(from, to)
		if known {
			return why
		}
		time.Sleep(p.every / 4)
	}
}

func (p *pulse) look(from, to time.Time) (why string, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	why = p.wrong(time.Now())
	if why != "" && p.last.Before(to) {
		return why, true
	}
	for _, s := range p.spells {
		if s.from.Before(to) && from.Before(s.to) {
			return s.why, true
		}
	}
	return "", p.last.After(to)
}
