// Package consul is the backend for HashiCorp Consul 1.14 and later, on the client
// library github.com/hashicorp/consul/api.
//
// # What it guarantees
//
// A session of this package is one Consul session, and never another. Revisions are creation indexes,
// which are Raft's: they rise over all keys and survive restarts. Creations, enqueues and guarded
// writes are one transaction each. The session looks up a transaction whose reply was lost, and then
// knows whether it was done: see slot.
//
// # The trust window
//
// Session.Deadline is the instant at which the newest acknowledged renewal was sent, plus the TTL,
// minus a twentieth of it. The servers keep a session for twice its TTL. DESIGN.md proves that the window is
// sound no matter what happens to the leader.
//
// That makes failover slow: Consul accepts no TTL below 10 s, so the entries of a process that crashes
// go 20 s later (session_ttl_min lets an operator allow less, but this package does not). Use
// [Config].Check for a faster failover: it ties each session to its own health check on the agent. With
// a Check of 2 s the entries go 3 s later: see Backend.register for what it relies on. The entries of a
// session that is closed go at once.
//
// # Notices
//
// A blocking query may hang at a frozen server while renewals get through. So each renewal, about
// every third of the TTL, comes with one consistent read that compares all awaited entries with what
// exists: see registry.look. A session is [backend.Live] only with that, and so learns of a change in
// less than its TTL; with a Check, in less than twice the Check.
//
// # What it does not guarantee
//
//   - A session ends at once, earlier than the window says, when an operator destroys it or takes
//     [SessionNode] out of the catalog. All sessions without a Check are on that node. It has no
//     agent, so no failure of agents or servers removes it.
//   - With a Check the session is on the agent's node, and ends with that. Autopilot's
//     cleanup_dead_servers, which is on by default, takes a server that is cut off out of the catalog
//     some six seconds later. An agent is taken out at once when it leaves: by "consul leave", or when
//     it is stopped (a client agent by default: set leave_on_terminate = false and
//     skip_leave_on_interrupt = true); by "consul force-leave", or when all servers are restarted and
//     do not find it; and after 72 hours of absence. Two terms may be valid then, for 19/20 of
//     SessionTimeout or of twice the Check, whichever is longer. Use client agents with a Check, which
//     autopilot does not touch, or use no Check. The session also ends when the agent loses its data,
//     when its machine's clock is set forward while it is down, or, rarely, when it is reloaded. Guarded
//     commits are safe all the same: the servers decide about them.
//   - A session also ends early if the servers' leader ends it by mistake. A leader that was paused for
//     longer than twice the TTL then tries to end sessions that it believes to have run out. It fails,
//     as another leads by then, but tries again 10, 30, 70, 150 and 310 s later; if it leads again by
//     then it ends sessions that were renewed all the time.
//   - The window uses Go's monotonic clock, which on Linux stops while the whole machine is suspended.
//   - A Delete of a persistent entry looks for children right before, as Consul cannot make that a
//     condition. A child that is created in between is left without its parent.
//   - IfExists and Update of an entry that was made by CreateEphemeral or CompareAndSet compare the
//     index of its last write, which is read first. While others write to it faster than that, they
//     are tried again and again.
//   - A session of another tool that holds a key may leave a lock-delay on it, 15 s by default, in which
//     nobody can take it: a CreateEphemeral blocks until it is over. Sessions of this package have no
//     lock-delay, as the trust window keeps two leaders apart.
//   - If a proxy in front of the agents sends a write twice, it may be reported as ErrSessionLost although
//     it was done, if the session ends between the two: as when an agent leaves in the middle of it. Do
//     not let a proxy resend a PUT (in nginx proxy_next_upstream off).
//   - Restoring a snapshot brings back sessions and entries that were gone, and takes back indexes: tokens
//     may come twice. A session that has written since is lost with its next look. Until then it
//     continues with what was restored.
//   - Namespaces and partitions of Consul Enterprise have not been tried.
//
// # What it asks of Consul
//
// Each awaited entry is a request that is answered late, and takes a connection: a waiting candidate of
// the fair strategy has two, besides the one for all other requests. An agent accepts 200 from one
// address (limits.http_max_conns_per_client). A session that awaits more than 32 entries, as of many
// elections on one [backend.Share], awaits them by one recursive query: put the elections into a directory
// in which there is not much else. Each change then brings all that is in it. A wait that gets no
// connection relies on the session's
// looks, which are a third of the TTL apart, and asks for a connection from time to time. If a session
// cannot be opened because there is none, Open returns ErrUnavailable at once. Set Config.Watches, so
// that waits never take the connection that the heartbeats need. Without it, other requests that get no
// connection return ErrUnavailable at once, too. An agent continues to count the connection of a request
// that was given up, for at most a minute: after an outage, when all waits are sent again, twice as many
// may count. Any other refusal that may pass, as by a limit on requests, is ridden out, and is
// ErrUnavailable after a session timeout: see errors.go.
//
// A session sends two requests each third of its TTL, the renewal and the look at what it waits for,
// for any number of entries, and one a minute for each entry. If it waits for a directory, the names of
// all keys in the directory come back each time.
//
// With ACLs, the token needs:
//
//	key_prefix "jobs/reindex"  { policy = "write" }  # the election
//	key "jobs"                 { policy = "write" }  # each key above it, which is created if it is missing
//	key_prefix ".elector/"     { policy = "write" }
//	session "elector-sessions" { policy = "write" }
//	node "elector-sessions"    { policy = "write" }  # until that node exists
//
// With Config.Check these replace the last two:
//
//	session_prefix ""         { policy = "write" }  # or a session rule with the agent's node
//	service "elector"         { policy = "write" }
//
// The first session of all creates the node. Or an operator does, and then no token needs the right:
//
//	curl -X PUT -H "X-Consul-Token: $TOKEN" -d '{"Node":"elector-sessions","Address":"127.0.0.1",
//	  "NodeMeta":{"external-node":"true","external-probe":"false"}}' $CONSUL_HTTP_ADDR/v1/catalog/register
//
// No agent may have the name "elector-sessions": sessions would end with it.
//
// A request that is refused because of the token is repeated for a third of the session timeout, for a
// new session at most five seconds, and then returns [backend.ErrDenied]: a server that was restarted
// refuses valid tokens while it reads its log.
//
// A transaction has at most 128 operations and 512 KB, with values in base64. An entry takes one or two
// operations, three if it is enqueued, or persistent and deleted; each condition takes one, each parent
// one, and the slot two.
//
// Servers from 1.21.5 on do not accept every key that this library accepts: [backend.ErrBadKey]. 1.21.5
// accepts letters and digits of ASCII, and ",_./-?&=", and nothing with "..". 1.21.6, 1.22 and later
// refuse ".." as a way up, percent-encoded too, and spaces at either end, unless an agent has
// disable_kv_key_validation. All accept what this package itself adds to a key.
//
// # Layout
//
// The entry "/a/b" is Consul's key "a/b", and its directory the key "a", which has no value. Enqueued
// entries are named "e-<session>-<random>"; see names.go. Flags are random with each write. A session's
// slots are ".elector/<session>/<number>", and go with it. For the directory "/a/b" the key
// ".elector/tails/a/b" names what was enqueued last: see tailKey.
package consul
