// Package elector elects a leader among processes, by a coordination service.
//
// # What it guarantees
//
// At most one candidate of an election holds a valid term at any time, whatever is
// delayed, repeated, lost or paused. [Term.Context] is done before the service can
// give the seat to another, by a trust window that depends on no remote clock and
// on no notice. The main exceptions: an operator deletes the leader's entry; a leader of the
// service's own servers goes on after a long pause.
//
// [Term.Token] rises strictly from term to term. No return path leaves an entry behind
// that could block the election. A campaign recovers by itself from lost sessions,
// deleted paths and servers that are away, or returns an error.
//
// docs/guarantees.md has all nine promises: what each means and does not, its exceptions,
// and how it is tested.
//
// # What it does not
//
// It cannot stop a process that looks neither at its Context nor at [Term.Valid],
// and no lock service can: any amount of time may pass between a check and the write that
// follows it. [Term.Commit] writes to the service in one step with the look at the term,
// so that a late write is refused there. What the leader writes elsewhere must carry the
// token, and the target must refuse a lower one than it has seen: docs/fencing.md.
//
// Trust windows are measured on the monotonic clock. The clocks of client and server may
// differ by any amount, but must not differ in rate by more than the backend's margin.
//
// # Use
//
//	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
//	defer stop()
//	return elector.Lead(ctx, elector.Config{
//		Backend:  b,               // of zookeeper.New, etcd.New, consul.New or memory.New
//		Strategy: fair.New(),      // or of another package in strategy/
//		Election: "/jobs/reindex",
//		ID:       hostname,
//	}, func(ctx context.Context, t *elector.Term) error {
//		return work(ctx, t.Token()) // returns when ctx ends
//	})
//
// docs/start.md is a tutorial: from nothing to a job that runs once, with its test.
//
// [Lead] is [New], [Run] and Close in one. A program that needs its Elector, too, such as a server that
// asks for each request whether it leads ([Elector.Term]), calls the three. [Elector.Campaign] is Run by
// hand. [Elector.Observe] follows who leads, and [Elector.Status] tells what the process knows. [Ask] asks a leader to go, and [Fit] asks the application whether it can lead.
// [Remove] removes what an election leaves when its candidates have gone. [NewTerm] makes
// terms for a fake of your own tests.
// docs/candidate.svg draws the states of a candidate, with the hooks and the errors on
// the way.
//
// Strategies are in strategy/…, coordination services in backend/…, and the suites
// that try each combination in conformance.
package elector
