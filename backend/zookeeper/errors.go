package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
	"github.com/elector-go/elector/backend/zookeeper/internal/wire"
)

// as returns an error that wraps both the sentinel and the client's own error.
func as(sentinel, native error) error {
	if errors.Is(native, zk.ErrNoAuth) {
		// The server accepts a wrong password, and then treats the client as another user.
		return fmt.Errorf("%w: the ACL gives the right to none of Config.Auth, or a password is wrong: %w", sentinel, native)
	}
	return fmt.Errorf("%w: %w", sentinel, native)
}

// A class says what a reply with an error code means for a request.
type class int

const (
	// unknown: the request may have been done. A read is sent again. A write is looked for (see
	// resolve), and then repeated. A code that is not in the table is unknown.
	unknown class = iota
	// notDone: nothing was done, and the request is sent again.
	notDone
	// final: nothing was done, and waiting does not change that, or the code is the result.
	final
	// gone: the link, or the session, is useless now: see transient.
	gone
)

// A meaning is the class of a reply, and the error of a call that gives up on it.
type meaning struct {
	class class
	as    error // nil: none of the contract's, or one that depends on the request
	// stop: the call gives up at once. Other errors are ridden out for a session timeout (see
	// driver.Bout): while heartbeats succeed nothing else would report them.
	stop bool
}

// down marks errors that are ridden out. It is ErrUnavailable once a call gives up: the campaign then
// retries with growing pauses, and reports that (Hooks.Retry).
var down = backend.ErrUnavailable

// codeAnswers maps the servers' codes, as in KeeperException.Code. Only "gone" with the code of an
// expired session ends a session: heartbeats ride out all others, until the trust window ends. A code
// in the reply to a multi's part says that nothing of the multi was done.
var codeAnswers = map[int32]meaning{
	-1:   {unknown, down, false},           // SYSTEMERROR
	-2:   {unknown, down, false},           // RUNTIMEINCONSISTENCY; of a multi's part: another one has failed
	-3:   {unknown, down, false},           // DATAINCONSISTENCY
	-4:   {unknown, down, false},           // CONNECTIONLOSS
	-5:   {notDone, down, false},           // MARSHALLINGERROR: all failures before a transaction is proposed
	-6:   {final, nil, true},               // UNIMPLEMENTED: the server is too old
	-7:   {unknown, down, false},           // OPERATIONTIMEOUT
	-8:   {final, backend.ErrBadKey, true}, // BADARGUMENTS
	-12:  {unknown, down, false},           // UNKNOWNSESSION
	-13:  {unknown, down, false},           // NEWCONFIGNOQUORUM, to operators
	-14:  {unknown, down, false},           // RECONFIGINPROGRESS, to operators
	-100: {unknown, down, false},           // APIERROR
	-101: {final, nil, true},               // NONODE
	-102: {final, backend.ErrDenied, true}, // NOAUTH
	-103: {final, nil, true},               // BADVERSION
	-108: {final, nil, true},               // NOCHILDRENFOREPHEMERALS
	-110: {final, nil, true},               // NODEEXISTS
	-111: {final, nil, true},               // NOTEMPTY
	-112: {gone, nil, true},                // SESSIONEXPIRED: the session decides what it means, and is lost
	-113: {unknown, down, false},           // INVALIDCALLBACK
	-114: {final, backend.ErrDenied, true}, // INVALIDACL
	-115: {final, backend.ErrDenied, true}, // AUTHFAILED
	-116: {gone, nil, true},                // CLOSING
	-117: {unknown, down, false},           // NOTHING
	-118: {gone, nil, true},                // SESSIONMOVED: it came in on the session's old link, and the server closes that
	-119: {notDone, down, false},           // NOTREADONLY: the server has no quorum, another one may
	-120: {notDone, down, false},           // EPHEMERALONLOCALSESSION: it is about to be made global
	-121: {final, nil, true},               // NOWATCHER
	-122: {unknown, down, false},           // REQUESTTIMEOUT
	-123: {final, nil, true},               // RECONFIGDISABLED
	-124: {final, backend.ErrDenied, true}, // SESSIONCLOSEDREQUIRESASLAUTH
	-125: {notDone, down, true},            // QUOTAEXCEEDED: an operator makes room, which takes longer than a call should wait in silence
	-127: {notDone, down, false},           // THROTTLEDOP: it waited for too long in the server's queue, and was removed
	// Our own code, see package wire. A write was done.
	wire.CodeTooLong: {unknown, backend.ErrTooLarge, true},
}

// libraryCodes are the codes for which the client library has its own errors.
var libraryCodes = map[error]int32{
	zk.ErrAPIError: -100, zk.ErrNoNode: -101, zk.ErrNoAuth: -102, zk.ErrBadVersion: -103, zk.ErrNoChildrenForEphemerals: -108,
	zk.ErrNodeExists: -110, zk.ErrNotEmpty: -111, zk.ErrSessionExpired: -112, zk.ErrInvalidACL: -114, zk.ErrAuthFailed: -115,
	zk.ErrClosing: -116, zk.ErrNothing: -117, zk.ErrSessionMoved: -118, zk.ErrReconfigDisabled: -123, zk.ErrBadArguments: -8,
}

// codeOf returns the code of a reply. Except for libraryCodes, the library reports it in the error's
// text only.
func codeOf(err error) (code int32, ok bool) {
	for known, code := range libraryCodes {
		if errors.Is(err, known) {
			return code, true
		}
	}
	_, text, ok := strings.Cut(err.Error(), "unknown error: ")
	n, why := strconv.ParseInt(text, 10, 32)
	return int32(n), ok && why == nil
}

// mean looks up what an error means. An error that is no reply is the library's: the request could not
// be encoded, and nothing was done, unless it is transient.
func mean(err error) meaning {
	code, ok := codeOf(err)
	if !ok {
		return meaning{class: final, stop: true}
	}
	if m, ok := codeAnswers[code]; ok {
		return m
	}
	return meaning{unknown, down, false}
}

// passing reports whether the request may be sent again on the same link after this reply.
func passing(err error) bool {
	m := mean(err)
	return (m.class == unknown || m.class == notDone) && !m.stop
}

// transient reports whether a call's error says nothing about the request: the connection broke before
// the reply came. Whether the server has acted on the request is not known. All other errors are the
// server's replies, or a request that could not be encoded: see mean.
func transient(err error) bool {
	switch {
	case err == nil:
		return false
	case errors.Is(err, zk.ErrConnectionClosed), errors.Is(err, zk.ErrNoServer),
		errors.Is(err, wire.ErrUnpinned), errors.Is(err, wire.ErrProtocol), errors.Is(err, errUnclear),
		errors.Is(err, net.ErrClosed), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, io.ErrClosedPipe), mean(err).class == gone:
		return true
	}
	// Errors of the connection's Write (reset, timeout, a TLS alert) reach the caller unchanged.
	var network net.Error
	var op *net.OpError
	return errors.As(err, &network) || errors.As(err, &op)
}

// errUnclear marks a reply to a commit that does not say whether the commit was done.
var errUnclear = errors.New("the answer does not say whether it was done")

// readError maps the server's error for a read.
func readError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, zk.ErrNoNode):
		return as(backend.ErrNoEntry, err)
	case errors.Is(err, zk.ErrInvalidPath):
		return as(backend.ErrBadKey, err)
	}
	if m := mean(err); m.as != nil {
		return as(m.as, err)
	}
	return err
}

func denied(err error) bool { return mean(err).as == backend.ErrDenied }

// tries counts the attempts of one request that was refused each time.
type tries struct {
	bout  driver.Bout
	pause driver.Pause
}

// again waits before a request is sent again. It returns false if the attempts have taken longer than a
// session lasts without heartbeats.
func (t *tries) again(ctx context.Context, s *session, err error) bool {
	if t.bout.Over(s.TTL()) {
		return false
	}
	s.cfg.Logger.Debug("zookeeper: a request is refused; trying again", "session", s.ID(), "error", err)
	_ = s.Pause(ctx, &t.pause) // what ends it stops the next attempt, too
	return true
}
