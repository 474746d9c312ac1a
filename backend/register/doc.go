// Package register is a backend on one object of any store that can read it and replace it conditionally:
// a Lease of Kubernetes, a key of NATS, a row. The object holds a document with all entries and sessions.
//
// A [Store] is the store. [New] makes a Backend of it; package backend/kubernetes and backend/nats do so for
// you. To write one, implement Read and Swap, and [Notifier] if the store can tell of changes.
//
// # Limits
//
// All entries of a Backend share its object, so a commit, a condition or Term.Commit is about them only:
// what is outside the object cannot be guarded, except by the fencing token. The object has a limit of
// size, see [Config]. Each session writes to it four times per session timeout, so it is meant for tens of
// sessions, not for thousands.
//
// A session ends by observation: another session sees that its heartbeats have stopped for its timeout, and
// removes it. So after a crash of all processes, or for a newcomer, the timeout counts from the first look.
//
// DESIGN.md has the document, the proof and its premises.
package register
