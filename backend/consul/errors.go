package consul

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// as returns an error that is both the sentinel and the client's own error.
func as(sentinel, native error) error { return fmt.Errorf("%w: %w", sentinel, native) }

// answers are what replies mean, by status. Without a line here are outcomes (200; 404 to a query of a key,
// with Consul's index: see vouched; 409 to a transaction, with errors in it: rolled back) and what is unknown:
//
//   - 500: no leader, one lost while it committed, and all errors of the servers' that have no code
//   - 502 to 504, and 404 or 409 without what makes them an outcome: a proxy
//   - a 404 to a pass of the health check, which the agent does not know: see session.beat
//   - no reply: refused, cut off, too late (not sent, if it was the dial); and one that cannot be read, such as
//     a proxy's page, or with null for an item
//
// Unknown is ridden out, with pauses, and not for ever without a report: see bout. A query is sent again. A
// write is looked up (see slot) and then made again; after a denial it is sent again unchanged. It may have
// been done in any case: a proxy may have sent it twice, and passed on the second reply. Only a final reply is
// the server's own word that nothing was written.
//
// A list of which the token may read only a part has that part, and a header that says so; if a proxy drops
// the header, see listBefore.
//
// Only "invalid session" in a transaction, and a 404 to a renewal that a consistent read confirms (see
// session.renew), end a session. Heartbeats ride out all else, until the window ends: a token may get its
// rights back.
//
// The client library returns read transactions and renewals without a status: see textError for the former.
// For the latter all but 200 and 404 are unknown.
var answers = map[int]driver.Meaning{
	http.StatusBadRequest: driver.Final.As(backend.ErrBadKey), // the request is not one to the agent
	// The token, or its rights; and any token while a server that was restarted reads its log.
	http.StatusUnauthorized: denial,
	http.StatusForbidden:    denial, // and "Permission denied" in a transaction
	// No agent is behind this address.
	http.StatusMethodNotAllowed: driver.Final,
	http.StatusNotImplemented:   driver.Final,
	// The request, or a value; the key; the token.
	http.StatusRequestEntityTooLarge:       driver.Final.As(backend.ErrTooLarge),
	http.StatusRequestURITooLong:           driver.Final,
	http.StatusRequestHeaderFieldsTooLarge: driver.Final,
}

// denial is ridden out for a third of a session timeout.
var denial = driver.Unknown.As(backend.ErrDenied)

// mean returns what an error means.
func mean(err error) driver.Meaning {
	m, ok := answers[code(err)]
	switch {
	case ok:
		return m
	case errors.Is(err, backend.ErrSessionLost), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return driver.Final
	case badKey(err):
		return answers[http.StatusBadRequest]
	case errors.Is(err, backend.ErrDenied):
		return denial
	}
	return driver.Unknown
}

// transient reports whether an error says nothing about the request.
func transient(err error) bool { return err != nil && mean(err).Is(driver.Unknown) }

// badKey reports whether the servers do not accept a key that this library accepts: see the package's
// doc.
func badKey(err error) bool {
	return code(err) == http.StatusInternalServerError && strings.Contains(err.Error(), "invalid key name")
}

// forbidden reports whether the token or its rights are refused.
func forbidden(err error) bool { return err != nil && mean(err).Sentinel == backend.ErrDenied }

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
	return errors.As(err, new(inLine)) || errors.As(err, &op) && op.Op == "dial"
}

// code returns the status of an error that is a server's reply, or 0.
func code(err error) int {
	var status api.StatusError
	if errors.As(err, &status) {
		return status.Code
	}
	return 0
}

// answerError returns the error of a call that gives up on err.
func answerError(err error) error {
	m := mean(err)
	switch {
	case m.Sentinel == nil, errors.Is(err, m.Sentinel):
		return err
	case code(err) == http.StatusTooManyRequests:
		return fmt.Errorf("%w: the agent, or what is in front of it, takes no more connections or requests: raise limits.http_max_conns_per_client "+
			"(200 by default), as each entry that is waited for has a connection, or the limit on requests: %w", m.Sentinel, err)
	}
	return as(m.Sentinel, err)
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
