package consul

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// as returns an error that is both the sentinel and the client's own error.
func as(sentinel, native error) error { return fmt.Errorf("%w: %w", sentinel, native) }

// What the replies mean. A write whose reply is anything but its outcome may have been done: a proxy
// may have sent it twice, and passed on the second reply. Only a final reply is the server's own word
// that nothing was written.
//
//	reply                      from whom, and why                             class
//	200                        the outcome                                    reply
//	404 to a query of a key    there is none, if it comes with Consul's index reply
//	404 to a renewal           session not found; see session.renew           session over, once a consistent read says so
//	404 to a pass of the check the agent does not know the check              unknown; see session.beat
//	409 to a transaction       rolled back: a condition did not hold          reply; "invalid session" in it: session over
//	400                        the request is not one to the agent            final, ErrBadKey
//	401, 403, "Permission      the token, or its rights; and any token        refused, ErrDenied when given up
//	  denied" in a transaction while a server that was restarted reads its
//	                           log: "ACL not found", and old rights
//	405, 501                   no agent is behind this address                final
//	413                        the request, or a value, is too large          final, ErrTooLarge
//	414, 431                   the key, or the token, is too long             final
//	429                        too many connections (http_max_conns_per_      unknown, ErrUnavailable when given up
//	                           client), RPC rate limit, a proxy
//	500                        no leader, leadership lost while committing,   unknown
//	                           any error of the servers' that has no code
//	500 "Invalid Session TTL"  to the creation of a session                   final, see openError
//	500 "invalid key name"     the key: Consul 1.21.5 and later               final, ErrBadKey
//	502, 503, 504              a proxy: no agent, or no reply                 unknown
//	404 elsewhere              a proxy has no route to an agent               unknown
//	409 without errors in it   a proxy                                        unknown
//	any other                  408 and 425 among them: ask again              unknown
//	no reply                   refused, reset, cut off, time out              unknown; not sent, if it was the dial
//	reply that is no JSON,     a page of a proxy                              unknown
//	  or has null for an item
//
// Refused is ridden out for a third of a session timeout. A write is sent again unchanged. A list of
// which the token may read only a part has that part, and a header that says so; if a proxy drops the
// header, see listBefore.
//
// Unknown is ridden out, with pauses: a query is sent again; a write is looked up (see slot) and then
// made again. It never ends a session by itself: heartbeats continue, and only the end of the trust
// window ends the session. Nor is it ridden out for ever without a report: see bout.
//
// Heartbeats treat only "session over" as final. A token may get its rights back.
//
// The client library returns read transactions and renewals without a status: see textError for the
// former. For the latter all but 200 and 404 are unknown.

// transient reports whether an error says nothing about the request: its class is unknown or refused.
func transient(err error) bool {
	if err == nil || errors.Is(err, backend.ErrSessionLost) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	return !slices.Contains(final, code(err)) && !badKey(err)
}

// badKey reports whether the servers do not accept a key that this library accepts: see the package's
// doc.
func badKey(err error) bool {
	return code(err) == http.StatusInternalServerError && strings.Contains(err.Error(), "invalid key name")
}

// final are the statuses of replies that waiting does not change.
var final = []int{
	http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge,
	http.StatusRequestURITooLong, http.StatusRequestHeaderFieldsTooLarge, http.StatusNotImplemented,
}

// forbidden reports whether the token or its rights are refused.
func forbidden(err error) bool {
	status := code(err)
	return status == http.StatusUnauthorized || status == http.StatusForbidden || errors.Is(err, backend.ErrDenied)
}

// speechless reports whether an error is a sign that the session may be out of touch. A server that
// replies that there are too many requests is in touch, and wants no more of them.
func speechless(err error) bool {
	return transient(err) && code(err) != http.StatusTooManyRequests && !forbidden(err)
}

// A bout is a series of requests that did not get the expected reply. While heartbeats succeed nothing
// else would show the caller that it makes no progress.
type bout struct {
	all    driver.Bout
	denied driver.Bout // of errors about rights only, up to now
	said   bool
	news   error // its first refusal, until it is logged
}

// note is for a refusal that does not count.
func (b *bout) note(err error) {
	if !b.said && (code(err) != 0 || forbidden(err)) {
		b.said, b.news = true, err
	}
}

// tell logs the first refusal. Caller holds no lock.
func (b *bout) tell(s *session) {
	if b.news != nil {
		s.b.cfg.Logger.Warn("consul: a request is refused; trying again", "session", s.ID(), "error", answerError(b.news))
		b.news = nil
	}
}

// over reports whether to give up, as the bout has lasted for longer than a session lasts without
// heartbeats; or a third of that, if rights are missing.
//
// If connections are missing, and waits share the heartbeats' client, it is over at once: the waits
// hold the connections, so waiting does not help, and each further try may take the one that heartbeats
// need.
func (b *bout) over(s *session, err error) bool {
	b.note(err)
	long := b.all.Over(s.lease.timeout)
	if !forbidden(err) {
		b.denied = driver.Bout{}
	} else if b.denied.Over(refusedFor(s.lease.timeout)) {
		return true
	}
	return long || crowded(err) && !s.b.waitsApart()
}

// ends is over, and logs. Caller holds no lock.
func (b *bout) ends(s *session, err error) bool {
	given := b.over(s, err)
	b.tell(s)
	return given
}

// pauses is for a session that is out of touch: the end of its window then ends the bout, and what was
// before does not count.
func (b *bout) pauses(s *session) {
	if s.State() != backend.Live {
		b.all, b.denied = driver.Bout{}, driver.Bout{}
	}
}

// refusedFor is how long requests with a refused token are repeated: a server may be reading its log.
func refusedFor(timeout time.Duration) time.Duration { return timeout / 3 }

// mostRefused is how long Open tries, at most: campaigns wait no longer than ten seconds for it.
const mostRefused = 5 * time.Second

// crowded reports whether the agent accepts no more connections from this address.
func crowded(err error) bool {
	return code(err) == http.StatusTooManyRequests && strings.Contains(err.Error(), tooManyConnections)
}

// tooManyConnections is the text of an agent that accepts no more connections from an address.
const tooManyConnections = "too many concurrent connections"

// unsent reports whether a request cannot have reached a server.
func unsent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// code returns the status of an error that is a server's reply, or 0.
func code(err error) int {
	var status api.StatusError
	if errors.As(err, &status) {
		return status.Code
	}
	return 0
}

// answerError maps a server's error.
func answerError(err error) error {
	switch code(err) {
	case http.StatusForbidden, http.StatusUnauthorized:
		return as(backend.ErrDenied, err)
	case http.StatusRequestEntityTooLarge:
		return as(backend.ErrTooLarge, err)
	case http.StatusTooManyRequests:
		return fmt.Errorf("%w: the agent, or what is in front of it, takes no more connections or requests: raise limits.http_max_conns_per_client "+
			"(200 by default), as each entry that is waited for has a connection, or the limit on requests: %w", backend.ErrUnavailable, err)
	case http.StatusBadRequest:
		return as(backend.ErrBadKey, err)
	}
	switch {
	case badKey(err):
		return as(backend.ErrBadKey, err)
	case errors.Is(err, backend.ErrDenied):
		return err
	case transient(err):
		return as(backend.ErrUnavailable, err)
	}
	return err
}

// openError maps an error of opening a session.
func openError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return driver.ContextError(ctx)
	case strings.Contains(err.Error(), "Invalid Session TTL"): // 500, and for good
		return fmt.Errorf("the servers do not take the session's TTL: choose another SessionTimeout, or change their session_ttl_min: %w", err)
	case code(err) == http.StatusBadRequest, errors.Is(err, backend.ErrUnavailable), errors.Is(err, backend.ErrDenied):
		return err
	case code(err) != 0:
		return answerError(err)
	}
	return as(backend.ErrUnavailable, err)
}

// textError restores the status of a read transaction: the client library drops it and leaves the text.
func textError(err error) error {
	text, ok := strings.CutPrefix(err.Error(), "Failed request: ")
	if !ok {
		return err
	}
	status := api.StatusError{Code: http.StatusInternalServerError, Body: strings.TrimSpace(text)}
	switch {
	case denied(text):
		status.Code = http.StatusForbidden
	case strings.Contains(text, tooManyConnections):
		status.Code = http.StatusTooManyRequests
	case strings.Contains(text, "too large"), strings.Contains(text, "too many operations"):
		status.Code = http.StatusRequestEntityTooLarge
	}
	return status
}
