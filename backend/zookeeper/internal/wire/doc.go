// Package wire is what stands between the client library go-zookeeper and its TCP connections. The
// library dials through it, and gets a [Link] for each connection. A [Pin] holds all links of one
// zk.Conn to one session. A [Talk] is an exchange without the library.
//
// A link reads the frames in both directions, because the library does not tell what a session must
// know: the granted timeout, the password, when a request was sent, the zxid of a reply. See [Events].
//
// # What it changes
//
//   - A read gets a watch where the session wants one: see [Pin.Watching].
//   - A sync of a certain path becomes a request to remove a watch: see [Pin.Unwatch].
//   - A create asks for the zxid of the creation where the session wants it: see [Pin.Telling].
//   - A listing is cut down to the names that the session wants: see [Pin.Nearest].
//   - Replies come to the library without zxids, and requests get theirs from the Pin: v1.0.4 of the
//     library races with itself there, and loses events.
//   - A reply that is too long becomes an error, [CodeTooLong]: to break the link would fail all that
//     is pending on it, and a repeated request would break the next link.
//   - A ping is left out if the session has just sent something else, and so are limits for reads and
//     writes where heartbeats end a link sooner: see [Pin.Beats].
//   - The library's buffers start small, and grow with the traffic: see [Pin.WithBuffer].
//
// # What it adds
//
//   - Authentication by SASL, which the library does not know: see [Link.Authenticate].
//   - Heartbeats, which the library need not know: see [Link.Ask].
//
// # What it guarantees
//
//   - No request runs in another session. After an expiry the library silently asks for a new session
//     on the same zk.Conn, and sends all queued requests in it. That connect request is not sent.
//   - Before a server has accepted SASL, only the connect request and tokens are sent to it.
//   - A request counts as sent before its first byte is: a trust window counts from no later time.
//   - Each reply is that to a request that was sent, and counts once. They come in order with events.
//   - No bytes of a server crash the process, or make it allocate without limit.
//
// It never dials, retries, or sends a request that nobody has asked for, and it never waits for the
// session. It knows no keys and no entries, and refuses requests that are not written whole.
package wire
