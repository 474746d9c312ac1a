// Package explore tries an election in every order of steps.
//
// It runs the real elector and the real strategy, with as many candidates as it is
// told, on the memory backend. Each operation of a candidate's session, each notice of
// a change, and each win that a strategy reports waits until the explorer lets it go.
// When all wait, what waits and the faults that could come are the choice of what
// happens next. [Exhaustive] makes every choice, one after the other; [Random] makes
// some, where there are too many; [Replay] makes those of a schedule that was printed.
//
// Each candidate campaigns, does one fenced commit when it leads, and resigns. What may
// go wrong is a [Fault]. After every step the explorer looks whether the promises of
// an election hold: never two terms at once, tokens that rise, no term before an older
// entry's, no win without an own entry, no commit without its claim, each commit once.
// When nothing is left to happen, each candidate has led and nothing is left behind.
//
// # A failure
//
// A failure prints the rule, what was seen, and the schedule, such as
//
//	fair/3/bnbbancncbbkaK-tcwck
//
// which is the strategy, the number of candidates, and the steps. A step is the letter
// of a candidate and that of what it does: o opens a session; g gets, l lists, b looks
// for the predecessor; n enqueues, c creates, p puts, s sets, d deletes, q asks for the
// guards only; w and v notice a change of an entry and of a list; r drops, x closes the
// session; k is the win. A number tells apart what is alike. Capital letters are
// faults, "!" after a commit is its lost reply and "~" its late request, R is the link
// coming back, F the application that is fit again, and W the execution of the wills of
// a process that has crashed. "-t" is time that passes, up to what it brings next. "-L"
// is a server that is behind from then on, and "-U" its catching up.
//
// With it goes the file where its history is saved, which internal/historyview checks,
// lists and draws. See package history. To record and check all schedules would cost a
// search four tenths of its speed, so the invariants search, and a schedule that fails
// is run again to be recorded. For what no invariant looks at, the histories of every
// schedule of Random and Replay are checked, and of every tenth of Exhaustive.
//
// # What "every" means
//
// A step is one operation of the service, done at one instant: the service is
// linearizable, but a new session may read what there was: see [Lag]. That a request or a
// read's answer is late is the same as that the step, or the candidate's next one, comes
// later, as long as the candidate waits for it; a request that it no longer waits for is a
// [Fault]. A crash is a link that never comes back. A session that is cut off is not
// dropped before its trust window has ended: that the service keeps to this is the
// premise, and not what is tried.
//
// What follows from a state is explored once. A state has what stands in the service, and
// takes a candidate for a function of the results that its calls have had, a call being
// known by the functions that it comes through. A strategy or backend that looks at the
// clock, draws lots, makes the same call from alike goroutines or keeps a state across
// campaigns is none: Report.Diverged counts where that shows. One that waits for a timer is
// let go on only when nothing else is left to happen. Closing an elector is not among the
// steps, and no one observes.
//
// # Your own strategy or backend
//
// Give your strategy as Config.Strategy. Give what you wrap around a backend as
// Config.Backend: it is put around the one that is explored, so that what it does in
// two calls can be interrupted between them.
package explore
