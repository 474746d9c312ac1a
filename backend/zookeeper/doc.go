// Package zookeeper is the backend for Apache ZooKeeper 3.5 and later, on the client library
// github.com/go-zookeeper/zk. Open refuses ClickHouse Keeper and RaftKeeper, which speak the protocol,
// with errors.ErrUnsupported: see Servers.
//
// # What it guarantees
//
// A session of this package is one ZooKeeper session, and never another: package internal/wire reads
// what the client library sends, and refuses a request for a new session after the first was granted.
// Revisions are zxids, which rise over all entries and survive restarts. An Enqueue, a CreateEphemeral
// and a guarded write take one round trip each. An Await that a deletion ends takes none.
//
// # The trust window
//
// Session.Deadline is the instant at which the newest acknowledged heartbeat was sent, plus the
// timeout that the server granted, minus a margin.
//
// A follower that is cut off replies to pings for syncLimit ticks (10 s with the servers' defaults),
// and a leader that is cut off replies to syncs and resumes sessions for as long, while the leader, or
// its successor, expires the session. So by default the leader and a quorum acknowledge a heartbeat:
// see [HeartbeatLeader], and DESIGN.md for the proof. When no replies come, the
// client switches to another server while there is time. The margin, an eighth of the granted timeout,
// covers differences in the clocks' rates and a leader that is late with its own heartbeats.
//
// The quorum's part costs a transaction that changes nothing per half of the timeout, for all sessions
// of a Backend together, and none where they write that often anyway. (On a standalone server, whose
// zxids have no epoch, it is one per session.) Each takes a zxid, and an epoch has 2^32 of them: a
// thousand processes with a timeout of 4 s use them up in some hundred days, and the ensemble then
// elects a leader again. A quorum that stalls for longer than 3/8 of the timeout may cost sessions.
//
// With [HeartbeatPing] every reply counts, except replies to authentication, which the server does not
// count. It causes no extra traffic. The margin, a quarter of the granted timeout, then covers a
// follower that dies: it reports the sessions to the leader every half tick, and half a tick is a
// quarter of the shortest session timeout. It does not cover a follower that is cut off.
//
// Guarded commits are safe either way: the leader decides about them. So are a user's own
// transactions, on any connection, with the checks that [Checks] returns.
//
// # Servers
//
// The window is proved for the servers of Apache ZooKeeper only, and for no other product that speaks
// its protocol. The epoch in each zxid distinguishes deposed leaders from others, and zxids of
// ClickHouse Keeper and RaftKeeper are positions in a log. ClickHouse Keeper also does not resume a
// session on a new connection (it grants a new session instead), so a broken link would end a term.
// Both grant sessions without a password. Open recognizes them by that, at no cost. Other products are
// not tested.
//
// # What it does not guarantee
//
//   - The package assumes that half a tick is at most a quarter of the session timeout. Servers that
//     set minSessionTimeout below two ticks break that.
//   - An observer that follows another follower (observerMasterPort) reports its sessions to the leader
//     half a tick later: list it in Config.Servers only with timeouts of five ticks at least.
//   - The package assumes that all servers of Config.Servers belong to one ensemble, and have the same
//     tickTime, minSessionTimeout and maxSessionTimeout. A server with a lower maximum shortens a
//     session's timeout at the leader as soon as the session asks it for a link, and the window may
//     then be open for longer than that. Stop the candidates to change these.
//   - The window uses Go's monotonic clock. On Linux that clock stops while the whole machine is
//     suspended.
//   - An exclusive entry, made by CreateEphemeral, is distinguished from its successors by its parent's
//     version, which every CreateEphemeral of this package raises. Entries that other tools, or a
//     CompareAndSet, make under the same key do not raise it, and the version of a parent that is
//     deleted and created again starts from scratch: do not reuse names of directories.
//   - A CreateEphemeral directly under the servers' root, without a chroot, has no parent that it may
//     write to. Its entry is distinguished from its successors by its own version only, read at most
//     one round trip before the request is sent, which may be long before it is applied (see the next).
//     Guard by something else there, such as an epoch that rises in the same commit.
//   - A request may wait in a follower's connection to its leader, and be applied after the session has
//     been at another server and has come back. An entry that it makes is removed then. An Update of an
//     entry of another session, or a CompareAndSet of a key that has been deleted since, is still
//     applied.
//   - In the minute after a link broke during a CreateEphemeral, an ephemeral node that the user makes
//     under its key in the same session, with the client library, is treated as an entry that was made
//     late, and removed.
//   - Persistent entries are distinguished from successors under the same key by their version only,
//     and by their revision where a read comes first: for IfExists, Update and Delete it does, at most
//     one round trip before.
//   - A read on a new link may be older than what a notice showed right before the old link broke, with
//     servers before 3.9, which do not send the notice's zxid.
//   - Restoring a backup brings back sessions and entries that were gone, and takes back zxids: tokens
//     may repeat. A session is lost when it has a link again and finds an entry of its own that was
//     deleted. It remembers the latest 4096 of them. Until then candidates wait behind it. The command
//     restore of 3.9's admin server breaks no link: restart the servers after it.
//   - If somebody gives a value to a directory of exclusive entries after this session has found it
//     without one, the next CreateEphemeral overwrites that value.
//   - When a Delete's reply is lost and the entry is gone, it counts as done, even if somebody else did
//     it. An Update whose reply was lost may be done twice. A CreateEphemeral or a CompareAndSet whose
//     reply was lost and whose entry is gone is repeated where that is possible.
//   - A commit whose reply was lost is ErrIndeterminate if others have since deleted or overwritten all
//     evidence of it, and if it is refused when it is sent again: see commit.resolve for what is
//     evidence.
//   - Changes of one transaction of another client are reported one by one, in the order of its parts.
//     So a candidate whose entry is deleted in one transaction with the leader's may be elected for a
//     moment, until the second report.
//   - Anybody who may write there can delete an entry and make a node of its name in one transaction.
//     Conditions, Update, Delete, Discard and Checks distinguish that node from the entry if anybody
//     has written to this session's entry before: a leader of the fair strategy writes to its entry as
//     soon as it leads, one of another strategy with its first Proclaim. Until then, and where the
//     transaction also writes to the new node as often as the entry was written to, they treat the node
//     as the entry, until its deletion is reported. A condition on another session's enqueued entry
//     checks existence only.
//   - A directory has numbers for 2^31 Enqueues, or half as many that are made with something else: each
//     of these makes two nodes. Any other node that is created there takes a number, too. After that
//     Enqueue returns backend.ErrUsedUp. The election then continues in a new directory, as soon as no
//     candidate stands in the old one. In a commit with ops that are not ephemeral it is
//     ErrIndeterminate: these have been done.
//
// # Layout
//
// The directory of exclusive entries has no value of its own: each CreateEphemeral sets its data to
// "elector-create-" and a random number, and so raises its version. A parent that has a value keeps it,
// at the cost of a read. Enqueued entries are named "e-<session>-<random>-<sequence>"; see names.go.
// During a transaction, and never outside of it, a node "t-<random>" may exist.
package zookeeper
