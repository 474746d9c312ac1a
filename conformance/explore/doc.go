// Package explore tries an election in every order of steps.
//
// It runs the real elector and the real strategy, with a given number of candidates, on the memory
// backend. Each operation of a candidate's session, each notice of a change, and each win that a strategy
// reports waits until the explorer releases it. When all wait, the calls that wait and the faults that
// could happen are the choices for the next step. [Exhaustive] makes every choice, one after the other.
// [Random] makes some, where there are too many. [Replay] repeats a printed schedule.
//
// Each candidate campaigns, does one fenced commit when it leads, and resigns. A [Fault] is what may go
// wrong. After every step the explorer checks that the promises of an election hold: never two terms at
// once, tokens that rise, no term before an older entry's, no win without an entry of its own, no commit
// without its claim, each commit once. In the end each candidate must have led, and nothing may be left.
//
// # A failure
//
// A failure prints the rule, what was seen, and the schedule, such as
//
//	fair/3/bnbbancncbbkaK-tcwck
//
// It consists of the strategy, the number of candidates, and the steps. A step is the letter of a
// candidate and the letter of what it does: o opens a session; g gets, l lists, b looks up the
// predecessor; n enqueues, c creates, p puts, s sets, d deletes, q checks guards only; w and v notice a
// change of an entry and of a list; r drops, x closes the session; k is the win. A number separates equal
// calls. Capital letters are faults. "!" after a commit is its lost reply, and "~" its late request. R is
// the return of the link, F the application that is fit again, and W the execution of the wills of a
// crashed process. "-t" is time that passes, up to the next event. "-L" makes a server lag from then on,
// and "-U" lets it catch up.
//
// The history of a failed schedule is saved in a file, which internal/historyview checks, lists and
// draws. See package history. To record and check all schedules would cost a search four tenths of its
// speed. So the search checks the invariants, and a schedule that fails is run again to be recorded. For
// faults that no invariant finds, the histories of all schedules of Random and Replay are checked, and of
// every tenth schedule of Exhaustive.
//
// # What "every" means
//
// A step is one operation of the service, done at one instant: the service is linearizable, except that a
// new session may read an older state: see [Lag]. As long as the candidate waits for it, a late request
// or a late reply to a read is the same as a later step of the candidate. A late request that it no
// longer waits for is a [Fault]. A crash is a link that never comes back. The service does not drop a
// session that is cut off before its trust window has ended: that is a premise, and not tested.
//
// What follows from a state is explored once. A state has what is in the service. It treats a candidate
// as a function of the results of its calls, and identifies a call by the functions that lead to it. A
// strategy or backend that looks at the clock, draws random numbers, makes the same call from equal
// goroutines or keeps state across campaigns is no such function: Report.Diverged counts where that
// shows. A candidate that waits for a timer continues only when nothing else is left to happen. Closing
// an elector is not among the steps, and no one observes.
//
// # Your own strategy or backend
//
// Give your strategy as Config.Strategy. Give a wrapper of a backend as Config.Backend: it wraps the
// backend that is explored, so that the explorer can interrupt it between two calls.
package explore
