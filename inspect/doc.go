// Package inspect is the way into elections from outside, for operators, dashboards and tools: who
// leads, who stands, what changes, and to ask a leader to go, to designate, remove and list. It takes
// a backend and the path of an election: no candidate, no ID and no strategy, which it takes from
// the election's record.
//
// # What it does not do
//
//   - What it says was so a moment ago. [View.At] tells when, and [View.Trouble] that it may be
//     so no longer. To decide who may write by it is a mistake: that is the leader's own
//     business (elector.Term.Commit).
//   - It stands in no election and founds none. It makes no ephemeral entry, and writes only
//     what Ask, Transfer, Designate, Undesignate and Remove are there for.
//   - It compiles all strategies of the library. A candidate has no use for it: Leader, Candidates
//     and Observe of its Elector do the same for the one election.
//
// # Sessions
//
// An Inspector opens one session, with the first call that needs it, and one more in place of one
// that is lost. All its calls and watches share it, so that a dashboard of a hundred elections costs
// one connection and one heartbeat. The session holds no entry, so that its timeout keeps nobody
// waiting. It matters for one thing: a watch says in that time that it is out of touch. To share the
// session of your candidates give both the same backend.Share.
//
// Whoever calls New calls Close, which ends the session and all watches. The backend stays open: it
// is its maker's to close.
package inspect
