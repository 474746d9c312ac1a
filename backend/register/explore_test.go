package register

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
)

// An exploration tries what may happen to a few processes that want the same seat, one after the other. Each
// request and each notice waits until the explorer lets it pass. In the plain schedule they pass in the order
// of the processes, and time passes when none waits. In every other schedule some faults happen, each at one
// step, and what follows is plain. All faults are tried at all steps; of two, all pairs. What is random in a
// session is less than a tick, but rarely changes an order: then a schedule may not be possible again.
//
// A failure prints the steps: the process and what passes, behind the letter of a fault, or the ticks that have
// passed.
type exploration struct {
	processes int
	notified  bool
	faults    int           // of a schedule, at most
	budget    time.Duration // zero: all that there is

	began     time.Time
	schedules int
	diverged  int // schedules in which a fault was not possible when it was its turn
}

// What may happen to the request or notice that is next.
const (
	others      = "." // one that waits behind it is first
	late        = "t" // time passes first
	requestLate = "<" // the request is on its way for long
	replyLate   = ">" // the reply or the notice is
	lost        = "x" // it does not arrive
	replyLost   = "!" // it arrives, and the link fails before the reply
	ghost       = "~" // the link fails, and the request arrives later
	twice       = "2" // it arrives twice, and the second reply comes back
	givenUp     = "C" // it arrives, and the caller gives up before the reply
	frozen      = "P" // all requests and notices of the process wait for more than a timeout
	cut         = "K" // the process's link is cut for good
	cutReply    = "L" // the same, but the reply is already on its way, for long
	cutRequest  = "G" // the same, but the request is
)

const (
	span = 32 * time.Second // the sessions' timeout
	// The explorer looks at the clock once a tick: heartbeats come at random in the half second before one.
	tick      = span/32 + time.Millisecond
	slow      = 12 // ticks: less than a request's timeout
	frozenFor = 36 // longer than a session's
	holds     = 21 // so long does a leader do nothing, twice: longer than a timeout together
	most      = 400
)

// A world is the run of one schedule.
type world struct {
	object
	now   int // ticks
	steps []string
	peers []*peer

	ctx     context.Context // ends when the schedule is over
	running sync.WaitGroup

	mu      sync.Mutex
	waiting []*request
	over    bool
	created map[string]bool // by value
	refused map[string]bool
	token   uint64 // of the last seat
	broken  string
}

// A peer is a process, and a Store whose requests wait.
type peer struct {
	*world
	name    string
	backend *Backend
	starts  int // in ticks: so that none rests when the seat becomes free, which takes a random time
	frozen  int // until then
	cut     bool

	// world.mu guards these.
	session *backend.Session // nil: it trusts none
	seat    backend.Entry
	values  int
	doubts  []string // of this session
	giveUp  context.CancelFunc
	led     bool
	seen    uint64 // the seq of the newest snapshot
}

// A request is one of a Store's calls, or a notice.
type request struct {
	by      *peer
	kind    string // read, swap, note
	do      func() // what it does at the object; nil: that is done
	replied chan struct{}
	err     error
	from    int  // it does not go on before
	silent  bool // nobody gets the reply
}

// asks makes a request, and returns when it is answered.
func (p *peer) asks(ctx context.Context, kind string, do func() error) error {
	r := &request{by: p, kind: kind, replied: make(chan struct{})}
	r.do = func() { r.err = do() }
	p.mu.Lock()
	if p.over {
		p.mu.Unlock()
		return do()
	}
	if !p.cut {
		p.waiting = append(p.waiting, r)
	}
	p.mu.Unlock()
	select {
	case <-r.replied:
		return r.err
	case <-ctx.Done():
		p.mu.Lock()
		defer p.mu.Unlock()
		r.silent = true
		return ctx.Err()
	}
}

func (p *peer) Read(ctx context.Context) (text []byte, tag string, err error) {
	var at reading
	err = p.asks(ctx, "read", func() error { at = p.at(); return nil })
	if err != nil {
		return nil, "", err
	}
	return at.text, at.tag, nil
}

func (o *object) at() reading {
	o.mu.Lock()
	defer o.mu.Unlock()
	return reading{o.text, o.tag()}
}

func (p *peer) Swap(ctx context.Context, text []byte, tag string) (string, error) {
	var now string
	err := p.asks(ctx, "swap", func() (err error) {
		now, err = p.object.swap(text, tag)
		return err
	})
	if err != nil {
		return "", err
	}
	return now, nil
}

// A hearing peer is a Notifier.
type hearing struct{ *peer }

func (p hearing) Notify(ctx context.Context, changed func([]byte, string)) {
	for {
		p.object.mu.Lock()
		at, next := reading{p.text, p.tag()}, p.changed.Next()
		p.object.mu.Unlock()
		if snap, _ := p.backend.link.latest(); snap == nil || snap.tag != at.tag { // else it changes nothing
			if err := p.asks(ctx, "note", func() error { return nil }); err == nil {
				changed(at.text, at.tag)
			}
		}
		select {
		case <-next:
		case <-ctx.Done():
			return
		}
	}
}

// run is the peer's program: it leads once, with a session after the other, if need be.
func (p *peer) run() {
	time.Sleep(time.Duration(p.starts)*tick + tick/2) // not when the explorer's ticks end
	for p.ctx.Err() == nil {
		s, err := p.backend.Open(p.ctx, backend.OpenOptions{TTL: span})
		if err != nil {
			time.Sleep(tick)
			continue
		}
		p.set(func() { p.session, p.doubts = s, nil })
		led := p.campaign(s)
		p.set(func() { p.session, p.seat = nil, backend.Entry{} })
		_ = s.Close(p.ctx)
		if led {
			p.set(func() { p.led = true })
			return
		}
	}
}

func (p *peer) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// campaign returns false if the session is lost before the peer has led.
func (p *peer) campaign(s *backend.Session) (led bool) {
	for s.State() != backend.Lost && p.ctx.Err() == nil {
		made, err := p.commit(s, nil, func(value []byte) backend.Op { return backend.CreateEphemeral("/a/seat", value) })
		switch {
		case err == nil:
			p.set(func() { p.seat = made[0] })
			for range 2 {
				_, _ = p.commit(s, []backend.Condition{backend.IfExists(made[0])}, func(value []byte) backend.Op { return backend.Enqueue("/a", value) })
				if p.starts > 0 {
					break // what the first one does for long is enough
				}
				select {
				case <-time.After(holds*tick + tick/2):
				case <-p.ctx.Done():
				}
			}
			return s.State() != backend.Lost
		case errors.Is(err, backend.ErrExists):
			if seat, err := s.Get(p.ctx, "/a/seat"); err == nil {
				_, _ = s.Await(p.ctx, seat)
			}
		default:
			time.Sleep(tick)
		}
	}
	return false
}

// commit does a commit whose op has a value of its own, and checks what it says of its outcome.
func (p *peer) commit(s *backend.Session, conditions []backend.Condition, op func(value []byte) backend.Op) ([]backend.Entry, error) {
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	var value string
	p.set(func() {
		p.values++
		value, p.giveUp = fmt.Sprint(p.name, p.values), cancel
	})
	made, err := s.Commit(ctx, conditions, op([]byte(value)))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.giveUp = nil
	switch {
	case p.over:
	case err == nil:
		if !p.created[value] {
			p.breaks("the commit of %s succeeded, and was not done", value)
		}
		for _, e := range p.look().Entries {
			if slices.Contains(p.doubts, string(e.Value)) {
				p.breaks("the commit of %s has not removed what the doubtful one of %s has made", value, e.Value)
			}
		}
	case errors.Is(err, backend.ErrIndeterminate):
		p.doubts = append(p.doubts, value)
	default:
		p.refused[value] = true
		if p.created[value] {
			p.breaks("the commit of %s returned %v, and was done", value, err)
		}
	}
	return made, err
}

// breaks notes the first promise that is broken. The caller holds mu.
func (w *world) breaks(format string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf(format, args...)
	}
}

// newWorld makes the object and the peers.
func (e *exploration) newWorld() *world {
	w := &world{created: make(map[string]bool), refused: make(map[string]bool)}
	_ = w.edit(func(d *document) error {
		_, err := d.commit("", []backend.Op{backend.CompareAndSet("/a", nil, 0)})
		return err
	})
	for i := range e.processes {
		p := &peer{world: w, name: string(rune('a' + i)), starts: 7 * i}
		cfg := Config{Name: p.name, Store: p, Poll: 3 * time.Second}
		if e.notified {
			cfg.Store = hearing{p}
		}
		p.backend, _ = New(cfg)
		w.peers = append(w.peers, p)
	}
	return w
}

// start starts the peers' programs, and returns when all wait. finish ends the schedule.
func (w *world) start() (finish func()) {
	ctx, cancel := context.WithCancel(context.Background())
	w.ctx = ctx
	for _, p := range w.peers {
		w.running.Go(p.run)
	}
	synctest.Wait()
	return func() {
		w.mu.Lock()
		w.over = true
		for _, r := range w.waiting {
			if r.err = errCut; !r.silent {
				close(r.replied)
			}
		}
		w.mu.Unlock()
		cancel()
		w.running.Wait()
		time.Sleep(span) // for what ends by itself
	}
}

// next returns what may pass, in the order of the plain schedule.
func (w *world) next() (ready []*request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting = slices.DeleteFunc(w.waiting, func(r *request) bool { return r.silent && (r.do == nil || r.kind != "swap") })
	for _, r := range w.waiting {
		if w.now >= r.from && w.now >= r.by.frozen {
			ready = append(ready, r)
		}
	}
	slices.SortStableFunc(ready, func(a, b *request) int {
		return strings.Compare(a.by.name+a.kind, b.by.name+b.kind)
	})
	return ready
}

// choices returns the faults that may happen to what is next.
func (w *world) choices(ready []*request) (faults []string) {
	if len(ready) == 0 {
		return nil
	}
	r := ready[0]
	faults = []string{late}
	switch {
	case r.do == nil: // the reply
	case r.kind == "note":
		faults = append(faults, replyLate, lost)
	case r.kind == "read":
		faults = append(faults, requestLate, replyLate, lost, frozen, cut)
	default:
		faults = append(faults, requestLate, replyLate, lost, replyLost, ghost, twice, frozen, cut, cutReply, cutRequest)
		w.set(func() {
			if r.by.giveUp != nil {
				faults = append(faults, givenUp)
			}
		})
	}
	for i := range ready[1:] {
		faults = append(faults, fmt.Sprint(others, i+1))
	}
	return faults
}

func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// step lets what is next pass, with a fault, or without one if it is "".
func (w *world) step(ready []*request, fault string) {
	if len(ready) == 0 || fault == late {
		began := w.now
		for w.now < most && (fault == "" && len(w.next()) == 0 && !w.led() || fault != "" && w.now < began+4) {
			w.now++
			time.Sleep(tick)
			synctest.Wait()
		}
		w.steps = append(w.steps, fmt.Sprint(fault, w.now-began))
		return
	}
	r := ready[0]
	if nr, is := strings.CutPrefix(fault, others); is {
		n, _ := strconv.Atoi(nr)
		r, fault = ready[n], others
	}
	w.steps = append(w.steps, fault+r.by.name+"."+r.kind)
	switch p := r.by; fault {
	case requestLate:
		r.from = w.now + slow
	case replyLate:
		w.arrives(r)
		r.from = w.now + slow
	case lost:
		w.answers(r, errCut)
	case replyLost:
		w.arrives(r)
		w.answers(r, errCut)
	case ghost:
		again := *r
		again.silent, again.from = true, w.now+4
		w.answers(r, errCut)
		w.set(func() { w.waiting = append(w.waiting, &again) })
	case twice:
		do := r.do
		w.arrives(r)
		r.do = do
		w.arrives(r)
		w.answers(r, r.err)
	case givenUp:
		w.arrives(r)
		w.set(r.by.giveUp)
	case frozen:
		p.frozen = w.now + frozenFor
	case cut:
		w.cut(p, nil)
	case cutReply:
		w.arrives(r)
		w.cut(p, r)
	case cutRequest:
		r.silent = true
		w.cut(p, r)
	default:
		if r.do != nil {
			w.arrives(r)
		}
		w.answers(r, r.err)
	}
	synctest.Wait()
}

// cut cuts a peer's link for good. One request, or its reply, is on its way.
func (w *world) cut(p *peer, last *request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.cut = true
	w.waiting = slices.DeleteFunc(w.waiting, func(r *request) bool { return r.by == p && r != last })
	if last != nil {
		last.from = w.now + slow
	}
}

// arrives does what a request does at the object, and checks that.
func (w *world) arrives(r *request) {
	before := w.look()
	r.do()
	r.do = nil
	after := w.look()
	if after.Seq == before.Seq {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if after.Seq != before.Seq+1 || after.Rev <= before.Rev {
		w.breaks("swap %d, revision %d, follows swap %d, revision %d", after.Seq, after.Rev, before.Seq, before.Rev)
	}
	for key, e := range after.Entries {
		if before.Entries[key].Rev == e.Rev {
			continue
		}
		value := string(e.Value)
		switch {
		case w.created[value]:
			w.breaks("the commit of %s is done twice", value)
		case w.refused[value]:
			w.breaks("the commit of %s is done, and was refused", value)
		case key == "/a/seat" && e.Rev <= w.token:
			w.breaks("token %d follows token %d", e.Rev, w.token)
		}
		w.created[value] = true
		if key == "/a/seat" {
			w.token = e.Rev
		}
	}
}

// answers answers a request.
func (w *world) answers(r *request, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.err = err
	if !r.silent {
		close(r.replied)
	}
	w.waiting = slices.DeleteFunc(w.waiting, func(other *request) bool { return other == r })
}

// check checks what must hold after each step.
func (w *world) check() {
	d := w.look()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.peers {
		if snap, _ := p.backend.link.latest(); snap.seq() < p.seen {
			w.breaks("%s has seen swap %d, and takes swap %d for the newest", p.name, p.seen, snap.seq())
		} else {
			p.seen = snap.seq()
		}
		s := p.session
		if s == nil || s.State() == backend.Lost || !time.Now().Before(s.Deadline()) {
			continue
		}
		if _, lives := d.Sessions[s.ID()]; !lives {
			w.breaks("%s trusts its session for %v, and its record is gone", p.name, time.Until(s.Deadline()))
		}
		if p.seat.Exists() && !d.at("/a/seat").Is(p.seat) {
			w.breaks("%s trusts its session for %v, and its seat is gone", p.name, time.Until(s.Deadline()))
		}
	}
	if w.now >= most {
		w.breaks("the processes whose links are not cut have not led")
	}
}

// led reports whether all that can have led.
func (w *world) led() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !slices.ContainsFunc(w.peers, func(p *peer) bool { return !p.led && !p.cut })
}

// A happening is a fault at a step.
type happening struct {
	step  int
	fault string
}

// run runs a schedule, and returns the faults that could have happened at each of its steps. It returns false if
// one of its own was not possible.
func (e *exploration) run(t *testing.T, faults []happening) (could [][]string, ok bool) {
	var w *world
	left := faults
	defer func() {
		if stuck := recover(); stuck != nil { // a bubble panics if goroutines are left in it
			t.Fatalf("%v\nafter %s", stuck, strings.Join(w.steps, " "))
		}
	}()
	synctest.Test(t, func(*testing.T) {
		w = e.newWorld()
		defer w.start()()
		for w.check(); w.broken == "" && !w.led(); w.check() {
			ready := w.next()
			can, fault := w.choices(ready), ""
			if len(left) > 0 && left[0].step == len(could) {
				if fault = left[0].fault; !slices.Contains(can, fault) {
					return
				}
				left = left[1:]
			}
			could = append(could, can)
			w.step(ready, fault)
		}
	})
	if w.broken != "" {
		t.Fatalf("%s\nafter %d schedules, faults %v: %s", w.broken, e.schedules, faults, strings.Join(w.steps, " "))
	}
	return could, len(left) == 0
}

// from tries all schedules that begin with these faults and have more of them. It returns false if its
// budget is used up.
func (e *exploration) from(t *testing.T, faults []happening) bool {
	e.schedules++
	could, ok := e.run(t, faults)
	if len(faults) == 0 {
		could = e.usual(t)
	}
	for tries := 0; !ok && tries < 5; tries++ {
		could, ok = e.run(t, faults)
	}
	if !ok {
		e.diverged++
		return true
	}
	if len(faults) == e.faults {
		return e.budget == 0 || time.Since(e.began) < e.budget
	}
	first := 0
	if len(faults) > 0 {
		first = faults[len(faults)-1].step + 1
	}
	for step := first; step < len(could); step++ {
		for _, fault := range could[step] {
			if !e.from(t, append(slices.Clone(faults), happening{step, fault})) {
				return false
			}
		}
	}
	return true
}

// usual returns what could happen in the most usual run without faults. Heartbeats come at random, and in an odd run much
// is possible that is not in others.
func (e *exploration) usual(t *testing.T) (usual [][]string) {
	times := make(map[string]int)
	for range 9 {
		could, _ := e.run(t, nil)
		text := fmt.Sprint(could)
		if times[text]++; times[text] >= times[fmt.Sprint(usual)] {
			usual = could
		}
	}
	return usual
}

func (e *exploration) all(t *testing.T) {
	e.began = time.Now()
	outcome, whole := "all", e.from(t, nil)
	if !whole {
		outcome = fmt.Sprintf("stopped by a budget of %v", e.budget)
	}
	t.Logf("%d processes, notices %v, up to %d faults: %d schedules, %s, in %v; %d of them diverged",
		e.processes, e.notified, e.faults, e.schedules, outcome, time.Since(e.began).Round(time.Millisecond), e.diverged)
	if whole { // the first ones may have a fault in common after which much is left to chance
		require.LessOrEqual(t, e.diverged, e.schedules/4)
	}
}

// No order of requests, replies and notices, and no fault among them, breaks a promise.
func TestOrders(t *testing.T) {
	for _, e := range []exploration{{processes: 2, notified: true}, {processes: 2}, {processes: 3, notified: true}} {
		e.faults = 1
		e.all(t)
	}
}

var budget = flag.Duration("explore.budget", time.Second, "how long TestProve explores")

// TestProve explores as much as its budget allows, and logs how much.
func TestProve(t *testing.T) {
	for _, e := range []exploration{{processes: 2, notified: true}, {processes: 2}} {
		e.faults, e.budget = 2, *budget
		e.all(t)
	}
}
