package attempt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// What is late by more than a quarter of the session timeout, at once or in all within half of
// one, has starved a session. It is compared with what backends leave as slack between two
// heartbeats. The shortest is that of backend/zookeeper: its window, of seven eighths of the
// timeout, is moved to an instant up to half a timeout ago, by two requests one after the other.
// So three eighths spent on waiting for their answers may cost the session. The control asks
// every tenth: of that it misses a tenth at most, and notices more than a quarter. A smaller
// share would excuse more failures than the environment can have caused.
//
// The four answers that move that window come within seven eighths, and each may have met
// another standstill, of which the control has missed half a tenth on average. So up to four
// waits of the control's starve a session, too, if they and what it missed of them are more
// than three eighths. Waits of less than a hundredth have met none.
//
// A test's request goes through this process, its proxies among it, and through a server. So a
// server counts as late, too, while the clock is. What both are late by counts once.
const (
	mostShare  = 4  // of the timeout, late
	spanShare  = 2  // of the timeout, within which it is added up
	tickShare  = 50 // of the timeout, between two ticks of the clock
	askShare   = 10 // of the timeout, between two requests of the control
	pauseShare = 20 // of the timeout, before a control that lost its session opens another

	inARow      = 4   // answers
	missedShare = 20  // of the timeout, that the control misses of a standstill on average
	leastShare  = 100 // of the timeout, that a wait takes at least which met a standstill
)

// opening is how long Observe waits for the control's first session.
const opening = 15 * time.Second

// A Control keeps one session of a service's own client library, the bare client, until the
// session is lost or ctx ends. conformance.Service.Controls has the contract.
type Control = func(ctx context.Context, answered func(sent time.Time)) error

// An Environment is the machine and the servers that tests run on, as far as it can be told
// from observers: a clock, which notices how late its own ticks come, and controls.
type Environment struct {
	timeout  time.Duration
	clock    *pulse
	sessions []*pulse // one per control
}

// Observe observes the environment of tests that ask for the session timeout, until t ends.
// Without controls there is only the clock. It blocks until each control has a session, or for
// 15 s: tests that fail without one are void.
func Observe(t testing.TB, timeout time.Duration, controls ...Control) *Environment {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var observers sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		observers.Wait()
	})
	e := newEnvironment(timeout, len(controls), func(spell) {}, func(what string) { t.Log(what) })
	first := e.observe(ctx, &observers, controls)
	select {
	case <-first:
	case <-time.After(opening):
		t.Logf("a bare client has no session after %v", opening)
	}
	return e
}

// Announce observes the environment of a test's whole program, and prints each stretch of
// time in which something was wrong, until stop is called. internal/testrun tries those tests
// again that failed at such a time. A control may wait until its server is there: nothing is
// wrong before its first answer. Announce does not block; stop blocks until the observers have
// ended.
func Announce(timeout time.Duration, controls ...Control) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	e := newEnvironment(timeout, len(controls), func(s spell) { fmt.Println(s) }, func(what string) { fmt.Println(what) })
	for _, p := range e.sessions {
		p.idle = true
	}
	var observers sync.WaitGroup
	e.observe(ctx, &observers, controls)
	return func() {
		cancel()
		observers.Wait()
		for _, p := range e.pulses() {
			p.end()
		}
	}
}

func newEnvironment(timeout time.Duration, controls int, tell func(spell), note func(string)) *Environment {
	e := &Environment{timeout: timeout, clock: newPulse(timeout, timeout/tickShare, "this process stood still: its clock ticked", tell, note)}
	for range controls {
		p := newPulse(timeout, timeout/askShare, "a server stood still: it answered the bare client", tell, note)
		p.clock = e.clock
		e.sessions = append(e.sessions, p)
	}
	return e
}

func (e *Environment) pulses() []*pulse { return append([]*pulse{e.clock}, e.sessions...) }

// observe starts the observers. The channel it returns is closed when each control has a
// session.
func (e *Environment) observe(ctx context.Context, observers *sync.WaitGroup, controls []Control) <-chan struct{} {
	observers.Go(func() { e.clock.tick(ctx) })
	var sessions sync.WaitGroup
	for i, p := range e.sessions {
		sessions.Add(1)
		once := sync.OnceFunc(sessions.Done)
		observers.Go(func() {
			defer once()
			p.keep(ctx, e.timeout/pauseShare, func(ctx context.Context, answered func(time.Time)) error {
				return controls[i](ctx, func(sent time.Time) {
					answered(sent)
					once()
				})
			})
		})
	}
	first := make(chan struct{})
	observers.Go(func() {
		defer close(first)
		sessions.Wait()
	})
	return first
}

// Trouble blocks until the observers can tell, for less than half the session timeout.
func (e *Environment) Trouble(from, to time.Time) string {
	for _, p := range e.pulses() {
		if why := p.trouble(from, to); why != "" {
			return why
		}
	}
	return ""
}

// Latest tells how late the clock and the servers were at most in a stretch of time in which
// nothing was wrong.
func (e *Environment) Latest(from, to time.Time) string {
	said := fmt.Sprintf("within half a session timeout the clock was late by %v at most", e.clock.latest(from, to).Round(time.Millisecond))
	for i, p := range e.sessions {
		said += fmt.Sprintf(", with server %d by %v", i+1, p.latest(from, to).Round(time.Millisecond))
	}
	return fmt.Sprintf("%s; %v would be too late", said, e.timeout/mostShare)
}

// Settle blocks until nothing has been wrong for half a session timeout, or for a minute and
// five session timeouts.
func (e *Environment) Settle() string {
	for end := time.Now().Add(time.Minute + 5*e.timeout); ; {
		began := time.Now()
		time.Sleep(e.timeout / 2)
		why := e.Trouble(began, time.Now())
		if why == "" || time.Now().After(end) {
			return why
		}
	}
}

// Clock is the environment of tests that take the servers away themselves: the clock alone
// tells of it.
func (e *Environment) Clock() *Environment { return &Environment{timeout: e.timeout, clock: e.clock} }

// A pulse is a series of beats that should come at regular intervals. Whatever stands still
// has none.
type pulse struct {
	timeout, every time.Duration
	late           string       // what a beat that is late says
	tell           func(spell)  // of each that is over
	say            func(string) // what is no spell
	clock          *pulse       // of the process that observes a server

	mu     sync.Mutex
	idle   bool // there was no beat, and none is waited for
	last   time.Time
	lost   error  // the session was lost after the last beat
	waits  []wait // no more than mostWaits
	spells []spell
}

// A wait is what a beat has taken, and when it was over.
type wait struct {
	over time.Time
	took time.Duration
	sum  time.Duration // in all, within half a session timeout
}

// mostWaits is how many waits are kept: of a clock with a timeout of 3 s those of four minutes.
const mostWaits = 4096

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

func newPulse(timeout, every time.Duration, late string, tell func(spell), say func(string)) *pulse {
	return &pulse{timeout: timeout, every: every, late: late, tell: tell, say: say, last: time.Now()}
}

func (p *pulse) tick(ctx context.Context) {
	ticker := time.NewTicker(p.every)
	defer ticker.Stop()
	for due := time.Now().Add(p.every); ; due = time.Now().Add(p.every) {
		select {
		case <-ticker.C:
			p.beat(due)
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

// beat notes a beat that was due, or asked for, at an instant.
func (p *pulse) beat(due time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.note(p.last, now, p.wrong(now))
	ill := slices.ContainsFunc(p.spells, func(s spell) bool { return now.Sub(s.to) < 2*p.timeout })
	if p.lost != nil && !ill {
		p.say(fmt.Sprintf("the bare client's session was ended, though the servers answered in time, which is no fault of theirs: %s", line(p.lost)))
	}
	p.idle, p.last, p.lost = false, now, nil
	span := p.timeout / spanShare
	w := wait{over: now, took: max(0, now.Sub(due))}
	late := append(p.since(now.Add(-span)), w)
	with := ""
	if p.clock != nil {
		late = append(late, p.clock.recent(now.Add(-span))...)
		with = ", where the clock of this process was late included"
	}
	w.sum = covered(late)
	if len(p.waits) == mostWaits {
		p.waits = slices.Delete(p.waits, 0, mostWaits/2)
	}
	p.waits = append(p.waits, w)
	if w.sum > p.timeout/mostShare {
		p.note(now.Add(-span), now, fmt.Sprintf("%s late by %v in all within half a session timeout, %v%s", p.late, w.sum.Round(time.Millisecond), span, with))
	}
	if p.clock != nil {
		p.note(p.row(now))
	}
}

// row is a spell that ends with the latest wait, of waits so long that all answers that a session
// needs in a row may have met them. The caller holds mu.
func (p *pulse) row(now time.Time) (from, to time.Time, why string) {
	window, missed, least := p.timeout*7/8, p.timeout/missedShare, p.timeout/leastShare
	if p.waits[len(p.waits)-1].took < least {
		return now, now, "" // those before have been looked at
	}
	waits := p.since(now.Add(-window))
	slices.SortFunc(waits, func(a, b wait) int { return cmp.Compare(b.took, a.took) })
	from = now
	var sum time.Duration
	for i, w := range waits[:min(inARow, len(waits))] {
		if w.took < least {
			break
		}
		if began := w.over.Add(-w.took); began.Before(from) {
			from = began
		}
		if sum += w.took; sum+time.Duration(i+1)*missed > p.timeout*3/8 {
			why = fmt.Sprintf("%s late by %v in %d answers within %v, a session's window", p.late, sum.Round(time.Millisecond), i+1, window)
			return from, now, why
		}
	}
	return now, now, ""
}

// since returns the waits that were over since an instant. The caller holds mu.
func (p *pulse) since(from time.Time) []wait {
	i, _ := slices.BinarySearchFunc(p.waits, from, func(w wait, from time.Time) int { return w.over.Compare(from) })
	return slices.Clone(p.waits[i:])
}

// recent is since for others.
func (p *pulse) recent(from time.Time) []wait {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.since(from)
}

// covered is for how long there was any of these waits.
func covered(waits []wait) (sum time.Duration) {
	slices.SortFunc(waits, func(a, b wait) int { return a.over.Compare(b.over) })
	var counted time.Time // up to here
	for i, w := range slices.Backward(waits) {
		from := w.over.Add(-w.took)
		if i == len(waits)-1 || w.over.Before(counted) {
			counted = w.over
		}
		if from.Before(counted) {
			sum += counted.Sub(from)
			counted = from
		}
	}
	return sum
}

// latest is how late it was at most in a stretch of time, within half a session timeout.
func (p *pulse) latest(from, to time.Time) (most time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.waits {
		if w.over.After(from) && w.over.Before(to) {
			most = max(most, w.sum)
		}
	}
	return most
}

// note keeps what was wrong in a stretch of time, if anything. The caller holds mu.
func (p *pulse) note(from, to time.Time, why string) {
	if why != "" {
		s := spell{from, to, why}
		p.spells = append(p.spells, s)
		p.tell(s)
	}
}

// end notes what is wrong when nobody observes any more.
func (p *pulse) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.note(p.last, now, p.wrong(now))
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

// wrong tells what has been wrong since the last beat. A session that was lost is nothing wrong
// by itself: if all answers came in time then somebody has ended it, and what is tested may have.
// The caller holds mu.
func (p *pulse) wrong(now time.Time) string {
	if p.idle {
		return ""
	}
	late := now.Sub(p.last) - p.every
	switch by := late.Round(time.Millisecond); {
	case late <= p.timeout/mostShare:
		return ""
	case p.lost != nil:
		return fmt.Sprintf("%s %v late, and it lost its session, too: %s", p.late, by, line(p.lost))
	case late > p.timeout:
		return fmt.Sprintf("%s %v late, longer than the session timeout, %v", p.late, by, p.timeout)
	default:
		return fmt.Sprintf("%s %v late, more than a quarter of the session timeout, %v", p.late, by, p.timeout)
	}
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
