// Package simulate has the strategies elect among many candidates in simulated time, with
// a model in the place of the server.
//
// # What is real
//
// The strategies, the electors and their sessions: each candidate is an elector.New of its
// own with a session of its own on backend/memory, which keeps the entries and says who
// wins. Nothing of a strategy is rewritten or special to the simulation.
//
// # What is simulated
//
// Time is that of a testing/synctest bubble (package bubble): it moves on when all
// candidates wait, so that the time which the simulating machine takes for its work does
// not count, and a herd of 100,000 is not slower for being computed on few processors.
//
// The server is report.Model: it does one thing at a time, in the order in which things
// come. A request travels half a round trip, waits for its turn, takes effect when the
// server is done with it (Write, Read; KiB for a listing), and is answered at once; the
// answer travels the other half. At the instant at which a change takes effect, a notice to
// each candidate whose watch it fires joins the queue; each costs the server Notice, and
// travels half a round trip. The first goes to the candidate that has made the change, if
// it watches, too: it arrives with the answer. The order of the others is random, anew each
// time. A candidate itself takes no time at all.
//
// Watches, and how many requests a primitive takes, are those of backend/zookeeper: a watch
// is set by a read and spent by its notice; who is told of a deletion reads nothing, who is
// told of another change reads again; a watch that was not spent serves the next wait for
// nothing; a listing is read once for Predecessor, which then reads the one before and its
// own entry, and again at each change for AwaitList. A commit is one write, and costs the
// same when it is refused.
//
// # What is left out
//
// Heartbeats and the opening of sessions cost nothing. A session is dropped exactly when
// its timeout is over, where ZooKeeper rounds up to its tick. Nothing is ever lost on the
// way. Names that were listed are remembered for good (ZooKeeper's backend keeps 32).
//
// The crowd joins before the measuring begins, with the model switched off, one after the
// other, and with lists and watches held back until all have written: else each of N
// candidates that watch the directory would be woken up by all who come later, N²/2 times.
// What joining costs is measured afterwards, by those who come back.
package simulate
