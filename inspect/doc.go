// Package inspect gives operators, dashboards and tools access to elections from outside: it shows who
// leads, who stands and what changes; it can ask a leader to go, designate, remove and list. It needs a
// backend and the path of an election. It needs no candidate, no ID and no strategy; it takes the strategy
// from the election's record.
//
// # What it does not do
//
//   - What it reports was true a moment ago. [View.At] says when, and [View.Trouble] that it may no longer
//     be true. Never use it to decide who may write: the leader itself must do that (elector.Term.Commit).
//   - It stands in no election and founds none. It makes no ephemeral entry, and writes only for Ask,
//     Transfer, Designate, Undesignate and Remove.
//   - It compiles all strategies of the library. A candidate does not need it: Leader, Candidates and
//     Observe of its Elector do the same for its own election.
//
// # Sessions
//
// An Inspector opens one session with the first call that needs it, and replaces it if it is lost. All
// calls and watches share it, so a dashboard of a hundred elections costs one connection and one
// heartbeat. The session holds no entry, so its timeout keeps nobody waiting. The timeout has one effect:
// within it, a watch reports that it is out of touch. To share the session of your candidates, use the
// same backend.Share for both.
//
// The caller of New must call Close, which ends the session and all watches. The backend stays open: its
// maker closes it.
package inspect
