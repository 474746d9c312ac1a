package electionrules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance/history"
	"github.com/elector-go/elector/conformance/internal/harness"
	"github.com/elector-go/elector/conformance/kit"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy"
)

// limit is how long one state of a rule may take.
func limit(s *kit.Service) time.Duration {
	if s.Virtual {
		return 24 * time.Hour
	}
	return 3 * harness.Limit(s)
}

// An arena is one election in which a rule is tried, in one of the rule's states.
type arena struct {
	*harness.Try
	cfg  *kit.ElectionConfig
	path string // the election
	hist *chronicle

	candidates []*candidate
	bids       []*bid
	operator   *operator

	elsewhere backend.Backend // see outside
	processes *[]*kit.Client  // of all arenas of the rule
	// life ends when the rule is over, failed or not.
	life  context.Context
	over  context.CancelFunc
	parts int // of a rule with several states
	// states are the states that run in parallel.
	states []func(a *arena)
	ended  bool
	outage bool // the whole service was away at some time
}

func newArena(t *harness.Try, cfg *kit.ElectionConfig) *arena {
	svc := t.Service
	t.Patience = func() time.Duration { return wait.Patience }
	t.Pause = min(svc.TTL/100, 10*time.Millisecond)
	t.LongestPause = t.Pause
	t.Moment = 100 * time.Millisecond
	if svc.Virtual {
		t.Patience = func() time.Duration { return 10 * time.Minute }
		t.LongestPause = svc.TTL / 4
	}
	a := &arena{Try: t, cfg: cfg, processes: new([]*kit.Client)}
	a.life, a.over = context.WithCancel(context.Background())
	t.T.Cleanup(a.over)
	return a.at(svc.Root + "/election")
}

// at moves the arena to the election at path.
func (a *arena) at(path string) *arena {
	a.path = path
	t := a.Try
	t.More = func() string { return "\n\n\t" + a.hist.tail() + "\n\t" + a.hist.save(t.T) }
	a.hist = newChronicle(path, history.Options{Ordered: a.cfg.Ordered, Contexts: a.Service.Virtual, OthersWrite: true, Patience: time.Second})
	if a.operator == nil {
		a.operator = &operator{a: a}
	}
	return a
}

// another returns an arena for another election of the same rule, in a state of it.
func (a *arena) another(path, state string) *arena {
	t := *a.Try
	t.State = state
	return (&arena{Try: &t, cfg: a.cfg, operator: a.operator, processes: a.processes, life: a.life, over: a.over}).at(path)
}

// in tries one state of the rule, in an election of its own.
func (a *arena) in(state string, try func(a *arena)) {
	a.parts++
	sub := a.another(fmt.Sprintf("%s/part%d", a.Service.Root, a.parts), state)
	completed := false
	defer func() { sub.End(completed) }()
	try(sub)
	sub.finish()
	completed = true
}

// beside tries one state of the rule in parallel with its others, after the rule's own function has
// returned, each in an attempt of its own on a service of its own. On a virtual service it tries the
// state at once, as in does.
func (a *arena) beside(state string, try func(a *arena)) {
	if a.Service.Virtual {
		a.in(state, try)
		return
	}
	a.states = append(a.states, func(sub *arena) {
		sub.State = state
		try(sub)
	})
}

// each tries a state of the rule for each element of of, by a.in or a.beside.
func each[T any](in func(string, func(*arena)), format string, of []T, try func(a *arena, x T)) {
	for _, x := range of {
		in(fmt.Sprintf(format, x), func(a *arena) { try(a, x) })
	}
}

// An allowance is for a limited number of the states of a rule, which run in parallel.
type allowance struct{ left atomic.Int64 }

// use reports whether the state that calls it is within the allowance.
func (l *allowance) use() bool { return l.left.Add(-1) >= 0 }

// lacks reports whether the implementation lacks the ability.
func (a *arena) lacks(ability string) bool {
	_, lacks := a.cfg.Why[ability]
	return lacks
}

// within returns a ctx that ends after Patience, or when the rule is over.
func (a *arena) within() context.Context { return a.soon(a.Patience()) }

// soon returns a ctx that ends after d, or when the rule is over.
func (a *arena) soon(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(a.life, d)
	a.T.Cleanup(cancel)
	return ctx
}

func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func (a *arena) process() *kit.Client { return a.noted(a.Service.Client(a.T)) }

// noted makes the arena close a process at the end.
func (a *arena) noted(c *kit.Client) *kit.Client {
	*a.processes = append(*a.processes, c)
	return c
}

// outside returns a backend in a process of its own, where no candidate stands.
func (a *arena) outside() backend.Backend {
	if a.elsewhere == nil {
		a.elsewhere = a.process().Backend
	}
	return a.elsewhere
}

// arrives waits for a channel to be closed or to deliver.
func arrives[T any](a *arena, what string, c <-chan T) T {
	patience := time.NewTimer(a.Patience())
	defer patience.Stop()
	select {
	case v := <-c:
		return v
	case <-patience.C:
		a.Failf("not within %v: %s", a.Patience(), what)
		panic("unreachable")
	}
}

// Finish does what finish does, and looks for leaks of the implementation.
func (a *arena) Finish() {
	a.finish()
	a.leave()
}

// finish closes all candidates and checks what holds for every election: Close works, no candidate's
// entry is left in the service, and the history is sound.
func (a *arena) finish() {
	if a.ended || a.T.Failed() {
		return
	}
	a.ended = true
	for _, c := range a.candidates {
		c.unfault()
	}
	for _, c := range a.candidates {
		if !c.cut {
			a.close(c)
			continue
		}
		// The end of a session that was lost while its link was cut may be impossible to confirm. A
		// restarted server may stall.
		_ = c.real.Close(a.within())
	}
	for _, b := range a.bids {
		_ = b.result() // after Close
	}
	if len(a.candidates) > 0 {
		a.Until("the service holds no entry of the candidates any more", func() bool { return len(a.visible()) == 0 })
	}
	a.Settle()
	wrong := a.hist.check()
	a.FailIf(wrong != "", "%s", wrong)
	if a.lacks(needHooks) {
		return
	}
	for _, c := range a.candidates {
		wrong := c.transitions()
		a.FailIf(wrong != "", "%s", wrong)
	}
}

// abandonment is how long the candidates of a rule that failed may take to end.
const abandonment = 3 * time.Second

// End ends the candidates of a rule that failed on a real service, where they would continue beside other
// rules. completed is as in harness.Place.
func (a *arena) End(completed bool) {
	if a.Service.Virtual || completed && !a.T.Failed() {
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

// leave ends what the suite itself has open, and looks for goroutines that the implementation has leaked.
// It does so now, since they may end by themselves with the rule's links.
func (a *arena) leave() {
	if a.T.Failed() {
		return
	}
	a.operator.close()
	for _, c := range *a.processes {
		if c.Close != nil {
			c.Close()
		}
	}
	a.over()
	// Reading the stacks takes long when many rules run in parallel.
	end := time.Now().Add(a.Patience())
	if a.Service.Virtual {
		end = time.Now().Add(5 * time.Second) // what lingers is a leak, too
	}
	for pause := 10 * time.Millisecond; ; pause *= 2 {
		a.Settle()
		left := a.Goroutines()
		if len(left) == 0 {
			return
		}
		a.FailIf(time.Now().After(end),
			"%d goroutines are left after all electors were closed:\n%s", len(left), strings.Join(slices.Compact(left), "\n\n"))
		time.Sleep(pause)
	}
}

// visible returns the candidates' entries in the service, the leader's first, as a waiting process sees
// them: a member of an ensemble may be a little behind.
func (a *arena) visible() []backend.Entry {
	return read(a, "the candidates' entries", a.listed)
}

// entries returns the candidates' entries in the service now, the leader's first.
func (a *arena) entries() []backend.Entry {
	return readNow(a, "the candidates' entries", a.listed)
}

// inLineOf returns how many entries so many waiting candidates have.
func (a *arena) inLineOf(waiting int) int {
	if a.cfg.Lists {
		return waiting
	}
	return 0
}

// left checks how many entries the candidates have.
func (a *arena) left(n int, when string) {
	all := a.entries()
	a.FailIf(len(all) != n, "the entries are %v %s, want %d", harness.Keys(all), when, n)
}

func (a *arena) listed(ctx context.Context, s *backend.Session) ([]backend.Entry, error) {
	return a.cfg.Entries(ctx, s, a.path)
}

// seat returns the leader's entry, and fails the rule if there is none.
func (a *arena) seat() backend.Entry {
	all := a.entries()
	a.FailIf(len(all) == 0, "the leader has no entry")
	return all[0]
}

// get reads one entry as it is now. Rev is 0 if there is none.
func (a *arena) get(key string) backend.Entry {
	return readNow(a, key, func(ctx context.Context, s *backend.Session) (backend.Entry, error) {
		return find(ctx, s, key)
	})
}

// dir returns the election's directory, in this library's layout.
func (a *arena) dir() string {
	return readNow(a, "the election's record", func(ctx context.Context, s *backend.Session) (string, error) {
		return dirOf(ctx, s, a.path)
	})
}

// seated reports whether the term holds the seat now.
func (a *arena) seated(t *elector.Term) bool {
	all := a.entries()
	return len(all) > 0 && all[0].Rev == seatOf(a, t).Rev
}

// incarnation distinguishes one founding of the election from the next.
func (a *arena) incarnation() string {
	if is[strategy.CustomLayout](a.cfg.Strategy) {
		return fmt.Sprint(a.get(a.path).Rev)
	}
	return a.dir()
}

// delete removes key and everything below it, as an operator does.
func (a *arena) delete(key string) {
	a.hist.note("operator deletes %s", key)
	defer a.hist.During(history.Force, "operator deletes "+key)()
	if a.cfg.Dense && key == a.path {
		defer a.hist.During(history.Renumber, "operator deletes "+key)()
	}
	a.Must("delete "+key, a.Service.Delete(key))
}

// put writes an entry, as a foreign writer does.
func (a *arena) put(key, value string) {
	a.Must("put "+key, a.Service.Put(key, []byte(value)))
}

// stands checks that key has the value that a foreign writer has put there.
func (a *arena) stands(key, value string) {
	got := string(a.get(key).Value)
	a.FailIf(got != value, "%s had value %q and now has %q", key, value, got)
}

// nothing checks that there is no entry under key.
func (a *arena) nothing(key string) {
	e := a.get(key)
	a.FailIf(e.Exists(), "%s still exists: %+v", key, e)
}

// view returns an elector that does not campaign.
func (a *arena) view() elector.Elector {
	return a.stand().e
}

// leads waits until the elector's Leader returns the candidate, and returns it.
func (a *arena) leads(e elector.Elector, c *candidate) (l elector.Leader) {
	a.Until("Leader says that "+c.id+" leads", func() bool {
		var err error
		l, err = a.leader(e)
		return err == nil && l.ID == c.id
	})
	return l
}

// sees waits until the elector's Leader returns the candidate, in this term and with this value.
func (a *arena) sees(e elector.Elector, c *candidate, t *elector.Term, value string) {
	a.Until(fmt.Sprintf("Leader says that %s leads, with token %d and value %q", c.id, t.Token(), value), func() bool {
		l, err := a.leader(e)
		return err == nil && !l.Vacant() && l.ID == c.id && l.Token == t.Token() && string(l.Value) == value
	})
}

// leader asks the elector for the leader. It fails the rule on any error except ErrNoLeader.
func (a *arena) leader(e elector.Elector) (elector.Leader, error) {
	l, err := e.Leader(a.within())
	a.FailIf(err != nil && !errors.Is(err, elector.ErrNoLeader), "Leader: %v", err)
	return l, err
}

// vacant waits until the elector's Leader says that nobody leads.
func (a *arena) vacant(e elector.Elector) {
	a.Until("Leader says that nobody leads", func() bool { _, err := a.leader(e); return err != nil })
}

// list asks the elector for the candidates' IDs.
func (a *arena) list(e elector.Elector) []string {
	all, err := e.Candidates(a.within())
	a.Must("Candidates", err)
	ids := make([]string, len(all))
	for i, c := range all {
		ids[i] = c.ID
	}
	return ids
}

// lists waits until the elector's Candidates are want, the leader first. Without an order of succession the
// others may come in any order.
func (a *arena) lists(e elector.Elector, want ...string) {
	if !a.cfg.Ordered {
		want = slices.Sorted(slices.Values(want))
		a.Until(fmt.Sprintf("Candidates lists %q", want), func() bool { return slices.Equal(slices.Sorted(slices.Values(a.list(e))), want) })
		return
	}
	a.Until(fmt.Sprintf("Candidates lists %q", want), func() bool { return slices.Equal(a.list(e), want) })
}
