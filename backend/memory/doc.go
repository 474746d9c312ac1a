// Package memory is a coordination service in this process: the default of a
// program that runs alone, and the test double of one that does not.
//
// What it guarantees: the contract of package backend, whole. The store is
// linearizable, each commit raises one revision counter by one, sessions have
// trust windows that pass by the clock, and the service drops a session in one
// step and never before its window has passed.
//
// What it does not: nothing is kept when the process ends, and no other process
// can take part. For an election among several processes use another backend.
//
// # Testing your code
//
// [New] makes a service, and [Service.Client] one simulated process, which is a
// backend.Backend to give to an elector. What can happen to a process is a method
// of its Client:
//
//   - [Client.Suspend] and [Client.Resume]: the link is cut and comes back;
//   - [Client.Expire] and [Client.Revoke]: the service drops its sessions, and the process is
//     the first to hear of it, or the last;
//   - [Client.Kill]: it dies, and somebody executes the wills of its sessions, or nobody;
//   - [Client.LoseReply], [Client.CutReply], [Client.LoseRequest], [Client.DelayReply] and
//     [Client.DelayRequest]: what becomes of the next write;
//   - [Client.DelayWakeups] and [Client.HoldWakeups]: notices come late.
//
// By default messages take no time, and a process notices at once that its link is dead. Services
// are not so friendly: [Options.Latency] and [Options.Detect] make this one like them. New
// sessions see all that is there; with [Service.Lag] they may begin behind.
//
// What happens to all is a method of the Service: [Service.Stop] and
// [Service.Start], [Service.Delete] for an operator with a heavy hand,
// [Service.Put] for somebody else's data. [Service.Entries], [Service.Dump] and
// [Service.Stats] show what is there and what was done.
//
// Time is that of package time, and nothing runs in the background: a waiting call
// costs no goroutine but the caller's, and an idle session no timer. In a
// testing/synctest bubble the minutes of a test with timeouts pass at once; make
// the Service inside the bubble.
package memory
