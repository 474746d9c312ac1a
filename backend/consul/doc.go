// Package consul is the backend for HashiCorp Consul 1.14 and later, on the client
// library github.com/hashicorp/consul/api.
//
// # What it guarantees
//
// A session of this package is one Consul session, and never another. Revisions are
// creation indexes, which are Raft's: they rise over all keys and survive restarts.
// Creating, enqueuing and guarded writing are one transaction each. A transaction whose
// answer was lost is looked up, and it is then known whether it was done: see slot.
//
// # The trust window
//
// Session.Deadline is the instant at which the newest acknowledged renewal was sent, plus
// the TTL, minus a twentieth of it. The servers keep a session for twice its TTL: see
// session.beat for why the window is sound whatever happens to the leader.
//
// That makes for a slow failover: Consul takes no TTL below 10 s, so that the entries of
// a process that crashes go 20 s later (session_ttl_min lets an operator allow less, and
// this package does not). [Config].Check is the way out: it ties each session to a health
// check of its own on the agent. With a Check of 2 s they go 3 s later: see
// Backend.register for what it relies on. A session that is closed goes at once.
//
// # Notices
//
// A blocking query may hang at a server that is frozen, while renewals get through. So with
// each renewal, about every third of the TTL, one consistent read compares all that is
// awaited with what is there; where nothing is, it reads one key. A session is [backend.Live]
// only with that, and so hears of a change in less than its TTL: see registry.look. With a
// Check renewals are a quarter of the SessionTimeout apart, so that there are looks in
// between, and it is twice the TTL.
//
// # What it does not guarantee
//
//   - A session ends at once, and earlier than the window says, when an operator destroys it or
//     takes [SessionNode] out of the catalog. All sessions without a Check are on that node. No
//     agent stands for it, so that none takes them along, whatever becomes of agents and servers.
//   - With a Check the session is on the agent's node, and ends with that. A server that is cut off
//     is taken out of the catalog some six seconds later, by autopilot's cleanup_dead_servers, which
//     is on by default. An agent is at once when it leaves: by "consul leave", or when it is stopped
//     (a client agent by default: set leave_on_terminate = false and skip_leave_on_interrupt = true);
//     by "consul force-leave", or when all servers are restarted and do not find it; and after 72
//     hours of absence. Two terms may be valid then, for 19/20 of SessionTimeout or of twice the
//     Check, whichever is longer. Have client agents for it, which autopilot does not touch, or do
//     without. It also ends when the agent loses its data, its machine's clock is set forward while
//     it is down, or, rarely, when it is reloaded. Guarded commits are safe all the same: the servers
//     decide about them.
//   - A session also ends early where the servers' leader ends it by mistake. One that was paused for
//     longer than twice the TTL then tries to end what it takes to have run out. It fails,
//     as another leads by then, but tries again 10, 30, 70, 150 and 310 s later; where it
//     leads anew by then it ends sessions that were renewed all the time.
//   - The window is on Go's monotonic clock. On Linux it stands still while the whole
//     machine is suspended.
//   - A Delete of a persistent entry looks for children right before, as Consul cannot make
//     that a condition. A child that is made in between is left without its parent.
//   - IfExists and Update of an entry that was made by CreateEphemeral or CompareAndSet
//     compare the index of its last write, which is learned first. While others write to it
//     faster than that, they are tried again and again.
//   - A session of another tool that holds a key may leave a lock-delay on it, 15 s by
//     default, in which nobody can take it: a CreateEphemeral blocks until it is over. Sessions of
//     this package have none, as it is the trust window that keeps two leaders apart.
//   - A write that what stands in front of the agents sends twice may be told as ErrSessionLost
//     although it was done, if the session ends between the one time and the other: as when an
//     agent leaves in the middle of it. Have nothing there send a PUT again (in nginx
//     proxy_next_upstream off).
//   - Restoring a snapshot brings back sessions and entries that were gone, and takes back
//     indexes: tokens may come twice. A session that has written since is lost with its next look.
//     Until then it goes on with what was restored.
//   - Namespaces and partitions of Consul Enterprise have not been tried.
//
// # What it asks of Consul
//
// Each entry that is waited for is a request that is answered late, and has a connection of
// its own: a waiting candidate of the fair strategy has two, besides the one for all else. An
// agent takes 200 from one address (limits.http_max_conns_per_client). A wait for which there is
// none goes by the session's looks, which come a third of the TTL apart, and asks for a connection
// from time to time. A session that cannot be opened for want of one is ErrUnavailable at once.
// Set Config.Watches, so that waits never take the connection that the heartbeats need. Without
// it, other requests that find none are ErrUnavailable at once, too. An agent goes on counting the
// connection of a request that was given up, for a minute at most: after an outage, when all that
// wait ask again, twice as many may count. Whatever else is refused and may be answered later, as
// by a limit on requests, is asked for again, and ErrUnavailable after a session timeout: see
// errors.go.
//
// A session sends two requests each third of its TTL, the renewal and the look at what it waits
// for, however many entries that is, and one a minute for each of them. Where it waits for a
// directory the names of all keys in it come back each time.
//
// The token needs, with ACLs:
//
//	key_prefix "jobs/reindex"  { policy = "write" }  # the election
//	key "jobs"                 { policy = "write" }  # each key above it, which is made if it is not there
//	key_prefix ".elector/"     { policy = "write" }
//	session "elector-sessions" { policy = "write" }
//	node "elector-sessions"    { policy = "write" }  # until that node is there
//
// With Config.Check these take the place of the last two:
//
//	session_prefix ""         { policy = "write" }  # or a session rule with the agent's node
//	service "elector"         { policy = "write" }
//
// The first session of all makes the node. Or an operator does, and then no token needs the right:
//
//	curl -X PUT -H "X-Consul-Token: $TOKEN" -d '{"Node":"elector-sessions","Address":"127.0.0.1",
//	  "NodeMeta":{"external-node":"true","external-probe":"false"}}' $CONSUL_HTTP_ADDR/v1/catalog/register
//
// No agent may have the name "elector-sessions": sessions would end with it.
//
// What the token is refused is asked again for a third of the session timeout, a new session for
// five seconds at most, and is [backend.ErrDenied] then: a server that was restarted refuses valid
// tokens while it reads its log.
//
// A transaction has 128 operations and 512 KB at most, values in base64. An entry takes
// one or two operations, three where it is enqueued, or persistent and deleted, each condition one,
// each parent one, and the slot two.
//
// Servers from 1.21.5 on do not take every key that this library takes: [backend.ErrBadKey].
// 1.21.5 takes letters and digits of ASCII, and ",_./-?&=", and nothing with "..". 1.21.6, 1.22
// and later refuse ".." as a way up, percent-encoded too, and spaces at either end, unless an
// agent has disable_kv_key_validation. What this package itself adds to a key is taken by all.
//
// # Layout
//
// The entry "/a/b" is Consul's key "a/b", and its directory the key "a", which has no
// value. Enqueued entries are named "e-<session>-<random>"; see names.go. Flags are
// random with each write. A session's slots are ".elector/<session>/<number>", and go with
// it. Of the directory "/a/b" the key ".elector/tails/a/b" names what was enqueued last: see tailKey.
package consul
