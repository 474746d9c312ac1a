// Package zookeeper is the backend for Apache ZooKeeper 3.5 and later, on the client
// library github.com/go-zookeeper/zk. Open refuses ClickHouse Keeper and RaftKeeper, which speak
// the protocol, with errors.ErrUnsupported: see Servers.
//
// # What it guarantees
//
// A session of this package is one ZooKeeper session, and never another: the bytes
// that the client library sends are watched, and a request for a new session after
// the first was granted is refused. Revisions are zxids, which rise over all
// entries and survive restarts. Enqueuing, creating and guarded writing take one
// round trip each; an Await that a deletion ends takes none.
//
// # The trust window
//
// Session.Deadline is the instant at which the newest acknowledged heartbeat was
// sent, plus the timeout that the server granted, minus a margin.
//
// What acknowledges a heartbeat matters. The leader expires sessions, but a follower
// answers a client's pings by itself, and tells the leader later whom it heard
// from. A follower that is cut off from the leader goes on answering for syncLimit
// ticks (10 s with the servers' defaults), while the leader lets the session expire
// and another candidate wins. A leader that is cut off from its followers goes on for as
// long: it answers syncs, and takes sessions back, while its successor lets them expire.
// So by default a heartbeat is acknowledged by the leader and by a quorum: see
// [HeartbeatLeader], and the comment on session.beat for the proof. A session that has
// got a new link counts from its handshake once a quorum has acknowledged a write since.
// When the answers stay away, the client goes to another server while
// there is time. The margin, an eighth of the granted timeout, is for differences in
// the clocks' rates and for a leader that is late with its own heartbeats.
//
// The quorum's part costs a transaction that changes nothing per half of the timeout,
// for all sessions of a Backend together, and none where they write that often anyway. (On a
// standalone server, whose zxids have no epoch, it is one per session.)
// Each takes a zxid, of which an epoch has 2^32: a thousand processes with a timeout of
// 4 s use them up in some hundred days, and the ensemble then elects a leader again. A
// quorum that stalls for longer than 3/8 of the timeout may cost sessions.
//
// With [HeartbeatPing] every answer counts (but those to authentication, which the
// server does not count), at no extra traffic. The margin, a quarter of the granted
// timeout, then covers a follower that dies: it tells the leader of the sessions every
// half tick, and half a tick is a quarter of the shortest session timeout. It does
// not cover a follower that is cut off.
//
// Guarded commits are safe either way: the leader decides about them. So are a user's
// own transactions, on any connection, with the checks that [Checks] returns.
//
// # Servers
//
// The window is proved for the servers of Apache ZooKeeper, and for no other product that speaks
// its protocol. What tells deposed leaders from others is the epoch in each zxid, and zxids of
// ClickHouse Keeper and RaftKeeper are numbers of a log. ClickHouse Keeper also takes no session
// up on a new connection (it gives a new session instead), so that a link that breaks would end a term. Both grant
// sessions without a password, by which Open knows them, at no cost. Others are not tried.
//
// # What it does not guarantee
//
//   - Half a tick is taken to be at most a quarter of the session timeout. Servers that
//     set minSessionTimeout below two ticks break that.
//   - An observer that follows another follower (observerMasterPort) tells the leader of
//     its sessions a tick later than the proof allows for: give Config.Servers none.
//   - All servers of Config.Servers are taken to be of one ensemble, and to have the same
//     tickTime, minSessionTimeout and maxSessionTimeout. A server with a lower maximum
//     shortens a session's timeout at the leader as soon as the session has asked it for a
//     link, and the window may be open for longer then. Stop the candidates to change these.
//   - The window is on Go's monotonic clock. On Linux it stands still while the whole
//     machine is suspended.
//   - An exclusive entry, one made by CreateEphemeral, is told from its successors by its
//     parent's version, which every CreateEphemeral of this package raises. Entries that
//     other tools, or a CompareAndSet, make under the same key do not raise it, and a parent that
//     is deleted and made again begins anew: give directories names that are not used
//     twice.
//   - A CreateEphemeral directly under the servers' root, where there is no chroot, has no parent
//     that may be written to. It is told from its successors by its own version only,
//     read at most one round trip before it is sent, which may be long before it is done (see
//     the next). Guard by something else there, such as an epoch that rises in the same commit.
//   - A request may wait in the connection of a follower to its leader, and be done when the
//     session has been at another server and has come back. An entry that it makes is removed
//     then. An Update of an entry of another session, or a CompareAndSet of a key that has
//     been deleted since, is done all the same.
//   - In the minute after a link has broken under a CreateEphemeral, an ephemeral node that
//     the user makes under its key in the same session, with the client library, is taken for
//     one that was made late, and removed.
//   - Persistent entries are told from successors under the same key by their version
//     only, and by their revision where a read comes first: for IfExists, Update and Delete it
//     does, at most one round trip before.
//   - A read on a new link may be older than what a notice has shown right before the old one
//     broke, with servers before 3.9, which do not tell the notice's zxid.
//   - Restoring a backup brings back sessions and entries that were gone, and takes back zxids: tokens may
//     come twice. A session is lost when it has a link again and finds an entry of its own that was
//     deleted. It remembers the latest 4096 of them. Until then candidates wait behind it. The command
//     restore of 3.9's admin server breaks no link: restart the servers after it.
//   - A value that somebody gives to a directory of exclusive entries after this session
//     has found it without one is lost with the next CreateEphemeral.
//   - When a Delete's reply is lost and the entry is gone, it counts as done, even if
//     somebody else did it. An Update whose reply was lost may be done twice. A CreateEphemeral or a
//     CompareAndSet whose reply was lost and whose entry is gone is done again where it can be.
//   - A commit whose reply was lost is ErrIndeterminate where others have since deleted
//     or written over all that could tell, and where it is refused when it is sent
//     again: see commit.resolve for what can tell.
//   - Changes of one transaction of another client are reported one by one, in the order
//     of its parts. So a candidate whose entry is deleted in one transaction with the
//     leader's may be elected for a moment, until the second report.
//   - Somebody who may write there can delete an entry and make a node of its name in one
//     transaction. Conditions, Update, Delete, Discard and Checks tell that node from the entry if
//     this session's entry has been written to before, by whomever: a leader of the fair
//     strategy writes to its entry as soon as it leads, one of another strategy with its
//     first Proclaim. Until then, and where the transaction also writes to the new node as
//     often as the entry was written to, they take the node for the entry, until
//     its deletion is reported. A condition on another session's enqueued entry asks for
//     existence only.
//   - A directory has numbers for some 2^30 Enqueues: each makes two nodes, and whatever
//     else is created there takes a number, too. After that Enqueue is backend.ErrUsedUp.
//     An election then goes on in a new directory, as soon as no candidate stands in the
//     old one. In a commit with ops that are not ephemeral it is ErrIndeterminate: these
//     have been done.
//
// # Layout
//
// The directory of exclusive entries has no value of its own: its data becomes
// "elector-create-" and a random number with each CreateEphemeral, and its version rises. A
// parent that has a value keeps it, for the price of a read. Enqueued entries are
// named "e-<session>-<random>-<sequence>"; see names.go. During a transaction, and
// never outside of it, there may be a node "t-<random>".
package zookeeper
