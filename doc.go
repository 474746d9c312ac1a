// Package elector elects a leader among processes through a coordination service.
//
// # What it guarantees
//
// At most one candidate of an election holds a valid term at any time, even if messages are delayed,
// repeated or lost, or processes are paused. [Term.Context] is done before the service can give the seat
// to another candidate. A trust window ensures this; it depends on no remote clock and on no notice. The
// main exceptions: an operator deletes the leader's entry; a leader among the service's own servers
// continues after a long pause.
//
// [Term.Token] rises strictly from term to term. No return path leaves an entry behind that could block
// the election. A campaign recovers by itself from lost sessions, deleted paths and unreachable servers,
// or returns an error.
//
// docs/guarantees.md lists all nine promises: what each means and does not mean, its exceptions, and how
// it is tested.
//
// # What it does not guarantee
//
// It cannot stop a process that checks neither its Context nor [Term.Valid], and no lock service can: any
// amount of time may pass between a check and the write that follows it. [Term.Commit] checks the term and
// writes to the service in one step, so the service refuses a late write. What the leader writes elsewhere
// must carry the token, and the target must refuse a token lower than one it has seen: see
// docs/fencing.md.
//
// Trust windows are measured on the monotonic clock. The clocks of client and server may differ by any
// amount, but their rates must not differ by more than the backend's margin.
//
// # Use
//
//	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
//	defer stop()
//	return elector.Lead(ctx, elector.Config{
//		Backend:  b,               // from zookeeper.New, etcd.New, consul.New or memory.New
//		Strategy: fair.Strategy{}, // or a strategy from another package in strategy/
//		Election: "/jobs/reindex",
//		ID:       hostname,
//	}, func(ctx context.Context, t *elector.Term) error {
//		return work(ctx, t.Token()) // returns when ctx ends
//	})
//
// docs/start.md is a tutorial: from nothing to a job that runs once, with its test.
//
// [Lead] combines [New], [Run] and Close. A program that also needs its Elector calls the three itself,
// for example a server that checks on each request whether it leads ([Elector.Term]). [Elector.Campaign]
// is the lower-level alternative to Run. [Elector.Observe] follows who leads, and [Elector.Status] returns
// what the process knows. [Fit] asks the application whether it can lead. [NewTerm] makes terms for fakes
// in your own tests. docs/candidate.svg shows the states of a candidate, with the hooks and errors on the
// way.
//
// Strategies are in strategy/…, and package strategy has what their authors need. Coordination services are
// in backend/…. Package inspect is for operators: it shows elections, asks leaders to go, and removes what
// an election leaves. The suites that test each combination are in conformance.
package elector
