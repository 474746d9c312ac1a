// Package etcd is the backend for etcd 3.5 and later, on the client library
// go.etcd.io/etcd/client/v3.
//
// # What it guarantees
//
// A session of this package is one lease, and its ID is the lease's, in hex. The client
// is the user's own, with its TLS, credentials and namespace, and many sessions may share
// it. A key "/a/b" is etcd's key "/a/b". Revisions are etcd's. Creating and guarded
// writing take one round trip each, enqueuing one where nobody stands in the queue, or else
// two. An Await that an event ends takes none: all entries that it was asked for and that
// have the same parent are in the range of one watch, whose events come in order.
//
// # The trust window
//
// Session.Deadline is the instant at which the newest confirmed heartbeat was sent, plus
// the timeout that the server granted, minus an eighth of it, for clocks that differ in
// rate. A renewal of a lease goes through no quorum, and a member that has been deposed, but
// does not know, answers it. So a heartbeat is a linearizable read and then a renewal, both
// answered by one member: then the lease was renewed by a leader that had no successor
// when the heartbeat was sent: see the comment on session.beat. A round is sent every quarter
// of the timeout. The session is suspended when one is not confirmed within that time.
//
// Where the client has several endpoints, the heartbeats of all sessions of a Backend go over
// one connection more, to one of them at a time, as the client gives its members turns.
//
// Servers grant at least 3/2 of their election timeout, in whole seconds: 2 s by default.
//
// # Lost replies
//
// A transaction whose reply was lost may be applied late. So each has the condition that
// another key, the fence, was not put since the last revision that the session had seen.
// To find out, the session puts the fence, after
// which nothing of the transaction can come any more, and reads the history of its keys,
// which etcd keeps: what was done is known exactly, whatever others have written or deleted
// since, and what was not done is done then. The fence of a commit that was given up is put
// in the background, and later commits on its keys wait for that.
//
// # What it does not guarantee
//
//   - Before version 3.5 servers do not confirm the read of the members by a quorum: then a
//     deposed leader may hold the window open.
//   - An address that stands for several members, and sends each request to another one, has
//     heartbeats repeated until both requests have met the same member: the session may be
//     suspended for a moment. One that sends each connection to another member is fine.
//   - etcd's grpc-proxy may answer a renewal with one that it has made half a second before:
//     the window may be that much too long. With --advertise-client-url its answers do not
//     tell which member has given them, so that no heartbeat counts.
//   - A member that led, was paused for longer than the timeout and then goes on may, as
//     long as it does not know of its successor, ask for an end to leases that the
//     successor has been renewing, and the cluster does it: seen on 3.7, and likelier
//     before 3.5.13. Then the entries go while the window is open. The session hears of
//     that by what it awaits, and by its next heartbeat.
//   - The window is on Go's monotonic clock. On Linux it stands still while the whole
//     machine is suspended.
//   - Where a backup is restored, two terms may be valid until the first heartbeat after it, which comes with
//     the connection; and revisions are given a second time, unless etcdutl was told --bump-revision. A
//     session whose last write is gone, or that had seen a later revision, is lost then.
//   - Where the history has been compacted before it could be read, a commit whose reply
//     was lost is ErrIndeterminate.
//   - A CompareAndSet or Update whose reply was lost is not told from another's of the same
//     value over the same version, nor a Delete from another's: it counts as done then.
//   - A transaction that arrives twice, because a proxy or the client has sent it again by
//     itself, is told by the entry that it has created or enqueued. One that does neither may
//     be reported as refused though its first copy was done. A copy that arrives when its
//     commit has returned, or somebody has already brought what it enqueued into order, is
//     done as well. See MaxUnaryRetries at New, and have no proxy send requests again.
//   - A commit that makes no ephemeral entry, and is guarded by none of its session's, is not
//     bound to the session: a request that is late may be done after the session's end. What
//     terms write is guarded.
//   - A commit writes to each key once, and enqueues in each directory once.
//   - An enqueued entry that somebody writes over without its lease is gone: the key stays,
//     and is nobody's. Who writes it back with that lease makes it stand again, and its conditions
//     hold again: two may be elected. No other key may have such a name.
//   - A fence stays until its session ends, as an empty key with a zero byte in its name:
//     beside a key that was to be written, or, for all that is enqueued in a directory
//     together, in that. A session has put as many at most as there are keys and
//     directories of which it has lost replies, or has given up commits.
//   - A client hears of a link that is dead, but not closed, only with DialKeepAliveTime
//     set. Until then new sessions cannot be opened on it.
//
// # Access control
//
// With authentication on, a user needs:
//
//	read, write   "<election>" to "<election>0"
//	read          each key above the election, such as /jobs of /jobs/reindex
//	write         those of them that are missing: they are made
//	read, write   "<key>" to "<key>." for each key that Term.Commit writes
//	read          "<key>/" to "<key>0" besides, to delete it
//	read, write   the keys above it, as above
//
// The range beside a key is for its fence: a commit compares it, so that with the key alone
// each one is refused. Where the fence may be read, but not written, a lost reply cannot be
// resolved and is ErrIndeterminate, and what was given up may undo a later write. A commit
// that is refused names the rights that it needs, without the prefix of a namespace.
//
// A range that covers several awaited entries has to be readable as a whole. A session can
// renew its lease, and end it at once, only while the user may write all keys that are
// attached to it.
package etcd
