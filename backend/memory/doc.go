// Package memory is a coordination service in this process: the default for a program that runs alone, and
// the test double for one that does not.
//
// What it guarantees: the whole contract of package backend. The store is linearizable, each commit raises
// one revision counter by one, trust windows pass by the clock, and the service drops a session in one step
// and never before its window has passed.
//
// What it does not: nothing is kept when the process ends, and no other process can take part. For an
// election among several processes use another backend.
//
// # Testing your code
//
// [New] makes a service, and [Service.Client] makes one simulated process, which is a backend.Backend to
// give to an elector. Everything that can happen to a process is a method of its Client:
//
//   - [Client.Suspend] and [Client.Resume]: the link is cut and comes back;
//   - [Client.Expire] and [Client.Revoke]: the service drops its sessions, and the process is the first to
//     learn of it, or the last;
//   - [Client.Kill]: it dies, and somebody executes the wills of its sessions, or nobody does;
//   - [Client.LoseReply], [Client.CutReply], [Client.LoseRequest], [Client.DelayReply] and
//     [Client.DelayRequest]: what happens to the next write;
//   - [Client.DelayWakeups] and [Client.HoldWakeups]: it notices changes late.
//
// By default messages take no time, and a process notices at once that its link is dead. Real services are
// not so friendly: [Options.Latency] and [Options.Detect] make this one like them. New sessions see
// everything that is there; with [Service.Lag] they may begin behind.
//
// What happens to all processes is a method of the Service: [Service.Stop] and [Service.Start],
// [Service.Delete] for an operator who deletes entries, [Service.Put] for foreign data. [Service.Entries],
// [Service.Dump] and [Service.Stats] show what is there and what was done.
//
// Time is that of package time, and nothing runs in the background: a waiting call has no goroutine but its
// caller's, and an idle session has no timer. In a testing/synctest bubble the minutes of a test with
// timeouts pass at once; make the Service inside the bubble.
package memory
