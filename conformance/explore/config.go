package explore

import (
	"testing"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/strategy"
)

// Election is the path of the election that is explored.
const Election = "/election"

// A Config says what to explore.
type Config struct {
	// Strategy makes the strategy of one candidate. Required. The IDs of the candidates are "0", "1", and
	// so on, which every strategy of this module accepts.
	Strategy func() strategy.Strategy

	// Backend, if set, wraps the backend of each candidate. Its calls on the wrapped backend are the
	// steps: an operation that makes two calls is two steps.
	Backend func(backend.Backend) backend.Backend

	// New, if set, makes the candidates instead of elector.New. It must pass the config that it gets to
	// an elector. It may change the config.
	New func(elector.Config) (elector.Elector, error)

	// Candidates is the number of candidates. Zero means 2; the most is MaxCandidates.
	Candidates int

	// Terms is how often each candidate wants to lead. Zero means once. It does one fenced commit in each
	// term, and resigns.
	Terms int

	// Faults is the maximum number of faults in one schedule, of the given Kinds. No Kinds means all.
	Faults int
	Kinds  []Fault

	// Found makes the candidates found the election, in all orders. Otherwise the election exists from
	// the start, which is much less to explore. It makes no difference to a strategy.CustomLayout.
	Found bool

	// Ordered says that candidates lead in the order in which they have enrolled: nobody is elected
	// beside an older entry. Histories are checked for it, too.
	Ordered bool

	// Distinct says that a candidate's ID, or a rank derived from it, affects what it does. Otherwise
	// states that differ only in swapped candidates are the same.
	Distinct bool

	// Quorum is how many candidates must stand before the strategy lets one lead: fewer of them may wait
	// for ever. Zero means one.
	Quorum int

	// Invariant, if set, checks the service after every step. Its error says what is broken. See Dense.
	Invariant func(*memory.Service) error

	// MaxSchedules and Budget end the search early; zero means no limit. A Report says whether they did.
	MaxSchedules int
	Budget       time.Duration

	companion companion

	_ struct{}
}

// A companion executes the wills of a process that has crashed, at any moment after that, or never. The
// zero value is correct.
type companion struct {
	stopped bool // treats a process that is out of touch as dead
	another bool // executes the wills of another process
	again   bool // acts twice, and late: also after the service has dropped the sessions
}

// MaxCandidates is the number of letters that schedules have for candidates.
const MaxCandidates = 16

// maxSteps is the number of steps after which a schedule is treated as endless.
const maxSteps = 1000

// check ends the test if cfg cannot be explored.
func (c Config) check(t *testing.T) {
	t.Helper()
	if c.Strategy == nil {
		t.Fatal("explore: Config.Strategy is nil: give a function that makes the strategy, such as func() strategy.Strategy { return fair.Strategy{} }")
	}
	if c.Candidates > MaxCandidates {
		t.Fatalf("explore: Config.Candidates is %d, and may be %d at most", c.Candidates, MaxCandidates)
	}
}

func (c Config) withDefaults() Config {
	if c.Candidates <= 0 {
		c.Candidates = 2
	}
	if c.New == nil {
		c.New = elector.New
	}
	if c.Terms <= 0 {
		c.Terms = 1
	}
	if len(c.Kinds) == 0 {
		c.Kinds = Faults
	}
	return c
}

// A Fault is a kind of fault. Its value is its letter in schedules.
type Fault byte

const (
	// Expire: the service drops the candidate's session, and its process hears of it.
	Expire Fault = 'E'
	// Revoke: an operator ends the candidate's session in the service. The process hears of it last: with
	// its next call, or when time passes, by a heartbeat.
	Revoke Fault = 'V'
	// Suspend: the candidate's link is cut. It comes back at any later moment, or time passes until the
	// trust window ends, and then until the service drops the session.
	Suspend Fault = 'S'
	// LoseReply: a commit is done, and the link is cut before the reply arrives.
	LoseReply Fault = '!'
	// Late: the request of a commit is on its way until time passes. Its caller may give up before. It is
	// done all the same, unless the service has ended the session, or the link is cut, when it arrives.
	Late Fault = '~'
	// Cancel: the context of the candidate's campaign ends, and the candidate stands no more.
	Cancel Fault = 'C'
	// Resign: the leader resigns while its commit is pending.
	Resign Fault = 'Q'
	// Ask: an operator asks the leader to go while its commit is pending. It resigns.
	Ask Fault = 'A'
	// AskTo: the same, but the candidate that came last is to lead next. The leader resigns when that
	// candidate is next, or cannot be. It is for strategies that are a strategy.Transferrer.
	AskTo Fault = 'T'
	// Designate: an operator designates the candidate, and does not take that back. It is for
	// strategies that are a strategy.Designator.
	Designate Fault = 'G'
	// Delete: an operator deletes the candidate's entry.
	Delete Fault = 'D'
	// Lag: sessions that are opened from now on begin at a server that does not know later changes. The
	// server catches up at any later moment, and a session by itself when it writes. It makes a
	// difference only to a process that opens another session, so it happens only if another fault may
	// follow.
	Lag Fault = 'L'
	// Crash: the candidate's process is gone. Its pending requests arrive. The service notices when time
	// passes, or at any moment when the wills of its sessions are executed.
	Crash Fault = 'K'
	// Unfit: the candidate's application becomes unfit (elector.Config.Fit) while it campaigns or leads.
	// It is fit again at any later moment.
	Unfit Fault = 'U'
)

// Faults are all kinds. A late wake-up is no fault, nor a late request for which its caller waits: each
// of them waits until the explorer releases it, in any case.
var Faults = []Fault{Expire, Revoke, Suspend, LoseReply, Late, Cancel, Resign, Ask, AskTo, Designate, Delete, Lag, Crash, Unfit}

var faultNames = map[Fault]string{
	Expire: "session expires", Revoke: "operator ends its session", Suspend: "link is cut",
	LoseReply: "reply is lost", Late: "request is late", Cancel: "campaign is cancelled",
	Lag: "server is behind", Resign: "leader resigns meanwhile", Ask: "operator asks the leader to go",
	AskTo: "operator asks the leader to go in favour of the last candidate", Designate: "operator designates it", Delete: "operator deletes its entry", Crash: "process crashes",
	Unfit: "application is not fit", back: "link is back", fitAgain: "application is fit again", executes: "its wills are executed",
}

// String says what goes wrong.
func (f Fault) String() string { return faultNames[f] }
