package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance/history"
)

const ruleLabel = "conformance-rule"

// electionLimit is how long one state of a rule may take at most.
func electionLimit(s *Service) time.Duration {
	if s.Virtual {
		return 24 * time.Hour
	}
	return 3 * limit(s)
}

// An arena is one election in which a rule is tried, in one of the rule's states.
// Its methods that fail the rule must be called from the test's goroutine.
type arena struct {
	t     testing.TB
	rule  *electionRule
	state string
	svc   *Service
	cfg   *ElectionConfig
	path  string // the election
	hist  *chronicle

	candidates []*candidate
	bids       []*bid
	operator   *operator

	// gone is closed when the rule is over, failed or not.
	gone  chan struct{}
	parts int // of a rule with several states
	// states are those that are tried beside each other.
	states []electionRule
	ended  bool
}

func newArena(t testing.TB, svc *Service, cfg *ElectionConfig, r *electionRule) *arena {
	return newArenaAt(svc.Root+"/election", t, svc, cfg, r)
}

func newArenaAt(path string, t testing.TB, svc *Service, cfg *ElectionConfig, r *electionRule) *arena {
	a := &arena{t: t, rule: r, svc: svc, cfg: cfg, path: path, gone: make(chan struct{})}
	a.hist = newChronicle(path, history.Options{Ordered: cfg.Ordered, Contexts: svc.Virtual, OthersWrite: true, Patience: time.Second})
	a.operator = &operator{a: a}
	t.Cleanup(func() { close(a.gone) })
	return a
}

// in tries one state of the rule, in an election of its own.
func (a *arena) in(state string, try func(a *arena)) {
	a.t.Helper()
	a.parts++
	sub := newArenaAt(fmt.Sprintf("%s/part%d", a.svc.Root, a.parts), a.t, a.svc, a.cfg, a.rule)
	sub.state = state
	sub.operator = a.operator
	completed := false
	defer func() { sub.abandon(completed) }()
	try(sub)
	sub.finish()
	completed = true
}

// beside tries one state of the rule beside its others, when the rule's own function
// has returned, each in attempts of its own and on a service of its own; on a virtual one
// it is tried at once, as in does.
func (a *arena) beside(state string, try func(a *arena)) {
	if a.svc.Virtual {
		a.in(state, try)
		return
	}
	a.states = append(a.states, electionRule{name: a.rule.name, text: a.rule.text, need: a.rule.need, run: func(sub *arena) {
		sub.state = state
		try(sub)
	}})
}

// An allowance is for at most so many of the states of a rule, which are tried beside each
// other. A state counts by its last attempt: those before it were void.
type allowance struct {
	most int

	mu   sync.Mutex
	used map[string]bool // by state
}

// begins has a state not count until it uses the allowance: an attempt begins.
func (l *allowance) begins(state string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.used, state)
}

// use tells whether the state is one of those that are allowed.
func (l *allowance) use(state string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.used[state] && len(l.used) >= l.most {
		return false
	}
	if l.used == nil {
		l.used = make(map[string]bool)
	}
	l.used[state] = true
	return true
}

// failf says which rule is broken and what was seen, and ends the rule.
func (a *arena) failf(format string, args ...any) {
	a.t.Helper()
	state := ""
	if a.state != "" {
		state = "\n\twhen: " + a.state
	}
	a.t.Fatalf("rule %s is broken on %s, %s\n\trule: %s%s\n\tsaw:  %s\n\n\t%s\n\t%s", a.rule.name, a.svc.Name,
		a.cfg.Strategy.Name(), a.rule.text, state, fmt.Sprintf(format, args...), a.hist.tail(), a.hist.save(a.t))
}

// must fails the rule on an error.
func (a *arena) must(what string, err error) {
	a.t.Helper()
	if err != nil {
		a.failf("%s: %v", what, err)
	}
}

// refused fails the rule unless err is all of want.
func (a *arena) refused(what string, err error, want ...error) {
	a.t.Helper()
	for _, w := range want {
		if !errors.Is(err, w) {
			a.failf("%s: error is %s, want %q", what, text(err), w)
		}
	}
}

// patience is how long a rule waits for what has to happen.
func (a *arena) patience() time.Duration {
	if a.svc.Virtual {
		return 10 * time.Minute
	}
	return 20*time.Second + 5*a.svc.TTL
}

// within returns a ctx that ends when patience does.
func (a *arena) within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), a.patience())
}

// until waits for what others bring about.
func (a *arena) until(what string, holds func() bool) {
	a.t.Helper()
	pause := min(a.svc.TTL/100, 10*time.Millisecond)
	for end := time.Now().Add(a.patience()); !holds(); time.Sleep(pause) {
		if time.Now().After(end) {
			a.failf("not within %v: %s", a.patience(), what)
		}
		if a.svc.Virtual {
			pause = min(pause+pause/4, a.svc.TTL/4)
		}
	}
}

// settle lets what is on its way arrive: in a bubble until all goroutines are
// blocked, else for a moment. It never makes a right implementation fail.
func (a *arena) settle() {
	if a.svc.Virtual {
		time.Sleep(a.svc.Slow)
		synctest.Wait()
		return
	}
	time.Sleep(100 * time.Millisecond)
}

// arrives waits for a channel to be closed or to deliver.
func arrives[T any](a *arena, what string, c <-chan T) T {
	a.t.Helper()
	patience := time.NewTimer(a.patience())
	defer patience.Stop()
	select {
	case v := <-c:
		return v
	case <-patience.C:
		a.failf("not within %v: %s", a.patience(), what)
		panic("unreachable")
	}
}

// finish closes all candidates and checks what holds for every election, whatever
// the rule was about: Close works, nobody is left in the service, and the history
// is sound.
func (a *arena) finish() {
	a.t.Helper()
	if a.ended || a.t.Failed() {
		return
	}
	a.ended = true
	for _, c := range a.candidates {
		c.unfault()
	}
	for _, c := range a.candidates {
		ctx, cancel := a.within()
		err := c.real.Close(ctx)
		cancel()
		// The end of a session that was lost out of touch may be beyond confirmation.
		if !c.cut {
			a.must("Close of "+c.id, err)
		}
	}
	for _, b := range a.bids {
		arrives(a, "Campaign of "+b.c.id+" returns after Close", b.done)
	}
	if len(a.candidates) > 0 {
		a.until("the service holds nothing of the candidates any more", func() bool { return len(a.visible()) == 0 })
	}
	a.settle()
	if wrong := a.hist.check(); wrong != "" {
		a.failf("%s", wrong)
	}
	if _, lacks := a.cfg.Why[string(AbilityHooks)]; !lacks {
		for _, c := range a.candidates {
			if wrong := c.transitions(); wrong != "" {
				a.failf("%s", wrong)
			}
		}
	}
}

// abandonment is how long the candidates of a rule that failed may take to end.
const abandonment = 3 * time.Second

// abandon ends the candidates of a rule that failed on a real service, where they would go on
// beside its next attempt and beside other rules. completed is as in restore.
func (a *arena) abandon(completed bool) {
	if a.svc.Virtual || completed && !a.t.Failed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), abandonment)
	defer cancel()
	var closing sync.WaitGroup
	for _, c := range a.candidates {
		c.unfault()
		closing.Go(func() { _ = c.real.Close(ctx) }) // the rule has failed for a better reason
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		closing.Wait()
	}()
	select {
	case <-closed:
	case <-time.After(2 * abandonment): // Close does not heed its ctx
	}
}

// leave ends what the suite itself has open, and looks for goroutines that the
// implementation has left behind: now, since what is left may end by itself with the rule's
// links.
func (a *arena) leave(closeClients func()) {
	if a.t.Failed() {
		return
	}
	a.operator.close()
	closeClients()
	// To look takes as long as the stacks of all rules that are tried side by side are many.
	end := time.Now().Add(5 * time.Second)
	for pause := 10 * time.Millisecond; ; pause *= 2 {
		a.settle()
		left := goroutines(a.t.Name(), a.svc)
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			a.failf("%d goroutines are left after all electors were closed:\n%s", len(left), strings.Join(slices.Compact(left), "\n\n"))
		}
		time.Sleep(pause)
	}
}

// visible returns what the candidates have in the service, the leader's first, as one who
// waits for it sees it: a member of an ensemble may be a little behind.
func (a *arena) visible() []backend.Entry {
	a.t.Helper()
	return read(a, "the candidates' entries", a.listed)
}

// entries returns what the candidates have in the service now, the leader's first.
func (a *arena) entries() []backend.Entry {
	a.t.Helper()
	return readNow(a, "the candidates' entries", a.listed)
}

func (a *arena) listed(ctx context.Context, s *backend.Session) ([]backend.Entry, error) {
	return a.cfg.Entries(ctx, s, a.path)
}

// seat returns the leader's entry, which has to be there.
func (a *arena) seat() backend.Entry {
	a.t.Helper()
	all := a.entries()
	if len(all) == 0 {
		a.failf("the leader has no entry")
	}
	return all[0]
}

// get reads one entry as it is now; none has Rev 0.
func (a *arena) get(key string) backend.Entry {
	a.t.Helper()
	return readNow(a, key, func(ctx context.Context, s *backend.Session) (backend.Entry, error) {
		return find(ctx, s, key)
	})
}

// dir returns the election's directory, in this library's layout.
func (a *arena) dir() string {
	a.t.Helper()
	return readNow(a, "the election's record", func(ctx context.Context, s *backend.Session) (string, error) {
		return dirOf(ctx, s, a.path)
	})
}

// seated tells whether the seat is the term's now.
func (a *arena) seated(t *elector.Term) bool {
	a.t.Helper()
	all := a.entries()
	return len(all) > 0 && all[0].Rev == seatOf(a, t).Rev
}

// incarnation tells one founding of the election from the next.
func (a *arena) incarnation() string {
	a.t.Helper()
	if isForeign(a.cfg.Strategy) {
		return fmt.Sprint(a.get(a.path).Rev)
	}
	return a.dir()
}

// delete is an operator who removes key and all below it.
func (a *arena) delete(key string) {
	a.t.Helper()
	a.hist.note("operator deletes %s", key)
	defer a.hist.During(history.Force, "operator deletes "+key)()
	if a.cfg.Dense && key == a.path {
		defer a.hist.During(history.Renumber, "operator deletes "+key)()
	}
	a.must("delete "+key, a.svc.Delete(key))
}

// put is a foreign writer.
func (a *arena) put(key, value string) {
	a.t.Helper()
	a.must("put "+key, a.svc.Put(key, []byte(value)))
}

// view returns an elector that only looks on.
func (a *arena) view() elector.Elector {
	a.t.Helper()
	return a.stand().e
}

// leads waits until the elector's Leader is the candidate, and returns it.
func (a *arena) leads(e elector.Elector, c *candidate) elector.Leader {
	a.t.Helper()
	var leader elector.Leader
	a.until("Leader says that "+c.id+" leads", func() bool {
		l, err := a.leader(e)
		leader = l
		return err == nil && l.ID == c.id
	})
	return leader
}

// leader asks the elector for the leader. Only ErrNoLeader is no failure.
func (a *arena) leader(e elector.Elector) (elector.Leader, error) {
	a.t.Helper()
	ctx, cancel := a.within()
	defer cancel()
	l, err := e.Leader(ctx)
	if err != nil && !errors.Is(err, elector.ErrNoLeader) {
		a.failf("Leader: %v", err)
	}
	return l, err
}

// vacant waits until the elector's Leader says that nobody leads.
func (a *arena) vacant(e elector.Elector) {
	a.t.Helper()
	a.until("Leader says that nobody leads", func() bool { _, err := a.leader(e); return err != nil })
}

// list asks the elector for the candidates' IDs.
func (a *arena) list(e elector.Elector) []string {
	a.t.Helper()
	ctx, cancel := a.within()
	defer cancel()
	all, err := e.Candidates(ctx)
	a.must("Candidates", err)
	ids := make([]string, len(all))
	for i, c := range all {
		ids[i] = c.ID
	}
	return ids
}

// lists waits until the elector's Candidates are those, the leader first.
func (a *arena) lists(e elector.Elector, want ...string) {
	a.t.Helper()
	a.until(fmt.Sprintf("Candidates says %q", want), func() bool { return slices.Equal(a.list(e), want) })
}

// closing notes the clients that the service makes from now on. The function it
// returns closes what they have open.
func closing(s *Service) func() {
	var clients []*Client
	newClient, newClientAt := s.Client, s.ClientAt
	s.Client = func(t testing.TB) *Client {
		c := newClient(t)
		clients = append(clients, c)
		return c
	}
	if newClientAt != nil {
		s.ClientAt = func(t testing.TB, member int) (*Client, func()) {
			c, free := newClientAt(t, member)
			clients = append(clients, c)
			return c, free
		}
	}
	return func() {
		for _, c := range clients {
			if c.Close != nil {
				c.Close()
			}
		}
	}
}
