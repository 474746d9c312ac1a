package explore

import (
	"testing"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
)

// Election is the path of the election that is explored.
const Election = "/election"

// A Config says what is explored.
type Config struct {
	// Strategy makes the strategy of one candidate. Required. The IDs of the
	// candidates are "0", "1", and so on, which every strategy of this module takes.
	Strategy func() elector.Strategy

	// Backend, if set, wraps the backend of each candidate. What it calls on the one
	// that it is given are the steps: a call that it makes in two comes in two.
	Backend func(backend.Backend) backend.Backend

	// New, if set, makes the candidates instead of elector.New. It must give the config
	// that it gets to one, with changes as it likes.
	New func(elector.Config) (elector.Elector, error)

	// Candidates is how many there are; zero means 2, at most MaxCandidates.
	Candidates int

	// Terms is how often each candidate wants to lead; zero means once. It does one
	// fenced commit in each term, and resigns.
	Terms int

	// Faults is the most that go wrong in one schedule, of the Kinds given; no Kinds
	// means all.
	Faults int
	Kinds  []Fault

	// Found has the candidates found the election, in all orders. Otherwise it is
	// there from the start, which is much less to explore. It makes no difference to
	// a strategy that is Foreign.
	Found bool

	// Ordered says that candidates lead in the order in which they have enrolled: nobody is
	// elected beside an older entry, and histories are checked for it, too.
	Ordered bool

	// Distinct says that what a candidate does depends on its ID, such as its rank. Otherwise states in
	// which candidates have changed places are the same.
	Distinct bool

	// Quorum is how many candidates the strategy wants to stand, so that one leads: fewer of them may wait
	// for ever. Zero means one.
	Quorum int

	// Invariant, if set, is asked after every step about the service. Its error says
	// what is broken. See Dense.
	Invariant func(*memory.Service) error

	// MaxSchedules and Budget end the search early; zero means never. A Report tells
	// whether they did.
	MaxSchedules int
	Budget       time.Duration

	companion companion

	_ struct{}
}

// A companion executes the wills of a process that has crashed, at any moment after that, or never. The
// zero value is right.
type companion struct {
	stopped bool // takes a process that is out of touch for a dead one
	another bool // executes the wills of another process
	again   bool // acts twice, and late: when the service has dropped the sessions, too
}

// MaxCandidates is the most that a schedule has letters for.
const MaxCandidates = 16

// maxSteps is when a schedule is taken for one that never ends.
const maxSteps = 1000

// check ends the test where nothing can be explored.
func (c Config) check(t *testing.T) {
	t.Helper()
	if c.Strategy == nil {
		t.Fatal("explore: Config.Strategy is nil: give a function that makes the strategy, such as fair.New")
	}
	if c.Candidates > MaxCandidates {
		t.Fatalf("explore: Config.Candidates is %d: at most %d", c.Candidates, MaxCandidates)
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

// A Fault is a kind of thing that goes wrong. Its letter stands in schedules.
type Fault byte

const (
	// Expire: the service drops the candidate's session, and its process hears of it.
	Expire Fault = 'E'
	// Revoke: an operator ends the candidate's session in the service. Its process is the
	// last to hear of it: with its next call, or when time passes, by a heartbeat.
	Revoke Fault = 'V'
	// Suspend: the candidate's link is cut. It comes back at any later moment, or time
	// passes until the trust window ends, and then until the service drops the session.
	Suspend Fault = 'S'
	// LoseReply: a commit is done, and the link is cut before its reply gets through.
	LoseReply Fault = '!'
	// Late: the request of a commit is under way until time passes. Whoever waits for it may
	// give up before; it is done all the same, unless the service has ended the session, or the
	// link is cut when it arrives.
	Late Fault = '~'
	// Cancel: the context of the candidate's campaign ends, and it stands no more.
	Cancel Fault = 'C'
	// Resign: the leader resigns while its commit is under way.
	Resign Fault = 'Q'
	// Ask: an operator asks the leader to go, while its commit is under way. It resigns.
	Ask Fault = 'A'
	// AskTo: the same, for the one that has come last to lead next. The leader resigns when that is
	// next, or cannot be. It is for strategies that are an elector.Transferrer.
	AskTo Fault = 'T'
	// Designate: an operator designates the candidate. It is for strategies that are an
	// elector.Designator, and stays so.
	Designate Fault = 'G'
	// Delete: an operator deletes the candidate's entry.
	Delete Fault = 'D'
	// Lag: sessions that are opened from now on begin at a server that knows of nothing that comes
	// after. It catches up at any later moment, and a session by itself when it writes. It makes a
	// difference to a process that opens another session, so it comes only while there is
	// another fault to come.
	Lag Fault = 'L'
	// Crash: the candidate's process is gone. What is under way arrives. The service notices when time
	// passes, or at any moment when the wills of its sessions are executed.
	Crash Fault = 'K'
	// Unfit: the candidate's application is not fit any more (elector.Config.Fit), while it campaigns
	// or leads. It is fit again at any later moment.
	Unfit Fault = 'U'
)

// Faults are all kinds. That a wake-up is late is no fault, nor a request for which its caller
// waits: each one waits until the explorer lets it go, in any case.
var Faults = []Fault{Expire, Revoke, Suspend, LoseReply, Late, Cancel, Resign, Ask, AskTo, Designate, Delete, Lag, Crash, Unfit}

var faultNames = map[Fault]string{
	Expire: "session expires", Revoke: "operator ends its session", Suspend: "link is cut",
	LoseReply: "reply is lost", Late: "request is late", Cancel: "campaign is cancelled",
	Lag: "server is behind", Resign: "leader resigns meanwhile", Ask: "operator asks the leader to go",
	AskTo: "operator asks the leader to go, for the last to lead", Designate: "operator designates it", Delete: "operator deletes its entry", Crash: "process crashes",
	Unfit: "application is not fit", back: "link is back", fitAgain: "application is fit again", executes: "its wills are executed",
}

// String says what goes wrong.
func (f Fault) String() string { return faultNames[f] }
