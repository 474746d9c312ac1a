// Package etcd is the backend for etcd 3.5 and later, on the client library
// go.etcd.io/etcd/client/v3.
//
// # What it guarantees
//
// A session of this package is one lease, and its ID is the lease's ID in hex. The client is the user's
// own, with its TLS, credentials and namespace, and many sessions may share it. A key "/a/b" is etcd's key
// "/a/b". Revisions are etcd's. A creation or a guarded write takes one round trip. An enqueue takes one
// if nobody is in the queue, and nobody was at the survey before, else two. An Await that an event ends
// takes none: one watch covers all awaited entries that have the same parent, and its events come in
// order. A session that waits in many elections below one path has one watch for all of them, and what
// their terms announce at the same moment goes in one transaction.
//
// # The trust window
//
// Session.Deadline is the instant at which the newest confirmed heartbeat was sent, plus the timeout
// that the server granted, minus an eighth of it for clocks that differ in rate. The renewal of a
// lease goes through no quorum, and a member that was deposed, but does not know it, answers it. So a
// heartbeat is a linearizable read and then a renewal, both answered by one member. This shows that
// the leader that renewed the lease had no successor when the heartbeat was sent: DESIGN.md has the proof. A
// heartbeat is sent every quarter of the timeout, and every 30 s at least. The session is suspended when a
// heartbeat is not confirmed within that time.
//
// If the client has several endpoints, a Backend opens one more connection, to one endpoint at a
// time, for the heartbeats of all its sessions, because the client uses its endpoints in turn.
//
// Servers grant at least 3/2 of their election timeout, in whole seconds: 2 s by default.
//
// # Lost replies
//
// A transaction whose reply was lost may be applied late. So each transaction has the condition
// that another key, the fence, was not put since. When a reply is lost, the session puts the
// fence, and reads the history of its keys, which etcd keeps. So the session knows exactly what
// was done, even if others have written or deleted the keys since, and then does what was not
// done. When a commit is given up, its fence is put in the background, and later commits on its
// keys wait for that.
//
// # What it does not guarantee
//
//   - Servers before version 3.5 do not confirm the read of the members by a quorum: a deposed
//     leader may then hold the window open.
//   - If one address serves several members and sends each request to another one, heartbeats are
//     repeated until both requests have reached the same member, and the session may be suspended
//     for a moment. An address that sends each connection to another member is fine.
//   - etcd's grpc-proxy may answer a renewal with one that it made half a second before: the window
//     may be too long by that much. With --advertise-client-url its replies do not name the member
//     that gave them, so no heartbeat counts.
//   - A member that led, was paused for longer than the timeout and then continues may, until it
//     knows of its successor, ask to end leases that the successor has been renewing, and the
//     cluster ends them: seen on 3.7, and likelier before 3.5.13. The entries then go while the
//     window is open. The session learns of it from its waits and from its next heartbeat.
//   - The window uses Go's monotonic clock, which on Linux stops while the whole machine is suspended.
//   - When a backup is restored, two terms may be valid until the first heartbeat after it, which is
//     sent when the connection is back; and revisions are given a second time, unless etcdutl ran
//     with --bump-revision. A session whose last write is gone, or that had seen a later revision,
//     is then lost.
//   - If the history was compacted before it could be read, a commit whose reply was lost is
//     ErrIndeterminate.
//   - A CompareAndSet or Update whose reply was lost cannot be distinguished from another's write of
//     the same value over the same version, nor a Delete from another's: it counts as done.
//   - A transaction that arrives twice, because a proxy or the client has resent it, is recognized by
//     the entry that it has created or enqueued. One that does neither may be reported as refused
//     though its first copy was done. A copy that arrives after its commit has returned, or after
//     somebody has brought what it enqueued into order, is done as well. See MaxUnaryRetries at New,
//     and do not let a proxy resend requests.
//   - A commit that makes no ephemeral entry, and has no condition on an entry of its session, is not
//     bound to the session: a late request may be done after the session's end. What terms write is
//     guarded.
//   - A commit writes to each key once, and enqueues in each directory once.
//   - An enqueued entry that somebody overwrites without its lease is gone: the key stays, and
//     belongs to nobody. If somebody writes it back with that lease, it exists again, and its
//     conditions hold again: two may be elected. No other key may have such a name.
//   - A fence stays until its session ends, as an empty key with a zero byte in its name: beside the
//     key to be written, or in the directory for all that is enqueued there. A session has at most as
//     many fences as keys and directories for which it has lost replies or given up commits.
//   - The client detects a link that is dead, but not closed, only with DialKeepAliveTime set. Until
//     then new sessions cannot be opened on it.
//
// # Access control
//
// With authentication on, a user needs:
//
//	read, write   "<election>" to "<election>0"
//	read          each key above the election, such as /jobs of /jobs/reindex
//	write         those of them that are missing: they are created
//	read, write   "<key>" to "<key>." for each key that Term.Commit writes
//	read          "<key>/" to "<key>0" as well, to delete it
//	read, write   the keys above it, as above
//
// The range beside a key is for its fence: each commit compares the fence, so with the key alone every
// commit is refused. If the fence may be read, but not written, a lost reply cannot be resolved and is
// ErrIndeterminate, and a commit that was given up may undo a later write. The error of a refused
// commit names the rights that it needs, without the prefix of a namespace.
//
// A user who may read all that is below the parent of many elections spares a session a watch for each.
// A range that covers several awaited entries must be readable as a whole. A session can renew its
// lease, and end it at once, only while the user may write all keys that are attached to it.
package etcd
