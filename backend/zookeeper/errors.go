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
)

// as makes an error that is the sentinel and the client's own error.
func as(sentinel, native error) error {
	if errors.Is(native, zk.ErrNoAuth) {
		// The server takes a password that is wrong, and then knows somebody else.
		return fmt.Errorf("%w: the ACL gives the right to none of Config.Auth, or a password is wrong: %w", sentinel, native)
	}
	return fmt.Errorf("%w: %w", sentinel, native)
}

// A class says what an answer that is an error code means for a request.
type class int

const (
	// unknown: it may have been done. A read is sent again. A write is looked for (see
	// resolve), and then made again. A code that is not in the table is unknown.
	unknown class = iota
	// notDone: nothing was done, and it is sent again.
	notDone
	// final: nothing was done, and no waiting changes that, or it is an answer.
	final
	// gone: the link, or the session, is of no more use: see transient.
	gone
)

// A meaning is the class of an answer, and the error of a call that gives up on it.
type meaning struct {
	class class
	as    error // nil: none of the contract's, or one that depends on the request
	// stop: the call gives up at once. What is ridden out is given up after a session
	// timeout of such answers (see driver.Bout): while heartbeats succeed nobody else would tell.
	stop bool
}

// down is what is ridden out, and ErrUnavailable when it is given up: the campaign tries
// again then, with growing pauses, and says so (Hooks.Retry).
var down = backend.ErrUnavailable

// codeAnswers are the codes of the servers, as their KeeperException.Code has them. Only "gone" with
// the code of an expired session ends one: heartbeats ride out all others, until the trust window
// ends. A code in the answer to a multi's part says that nothing of the multi was done.
var codeAnswers = map[int32]meaning{
	-1:   {unknown, down, false},           // SYSTEMERROR
	-2:   {unknown, down, false},           // RUNTIMEINCONSISTENCY; of a multi's part: another one has failed
	-3:   {unknown, down, false},           // DATAINCONSISTENCY
	-4:   {unknown, down, false},           // CONNECTIONLOSS
	-5:   {notDone, down, false},           // MARSHALLINGERROR: all that goes wrong before a transaction is proposed
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
	-127: {notDone, down, false},           // THROTTLEDOP: it has waited for too long in the server's queue, and was taken out
	// Ours, see link.tooLong. A write was done.
	codeTooLong: {unknown, backend.ErrTooLarge, true},
}

// libraryCodes are those of which the client library makes an error of its own.
var libraryCodes = map[error]int32{
	zk.ErrAPIError: -100, zk.ErrNoNode: -101, zk.ErrNoAuth: -102, zk.ErrBadVersion: -103, zk.ErrNoChildrenForEphemerals: -108,
	zk.ErrNodeExists: -110, zk.ErrNotEmpty: -111, zk.ErrSessionExpired: -112, zk.ErrInvalidACL: -114, zk.ErrAuthFailed: -115,
	zk.ErrClosing: -116, zk.ErrNothing: -117, zk.ErrSessionMoved: -118, zk.ErrReconfigDisabled: -123, zk.ErrBadArguments: -8,
}

// codeOf returns the code of an answer. All but libraryCodes the library tells by its text alone.
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

// mean looks up what an error means. One that is no answer is of the library: the request could
// not be encoded, and nothing was done, unless it is transient.
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

// passing tells whether an answer is one after which a request may be sent again on the same link.
func passing(err error) bool {
	m := mean(err)
	return (m.class == unknown || m.class == notDone) && !m.stop
}

// transient tells whether a call's error says nothing about the request: the
// connection went away before the answer came. Whether the server has acted on
// the request is not known. Everything else is a server's answer, or a request
// that could not be encoded: see mean.
func transient(err error) bool {
	switch {
	case err == nil:
		return false
	case errors.Is(err, zk.ErrConnectionClosed), errors.Is(err, zk.ErrNoServer),
		errors.Is(err, errUnpinned), errors.Is(err, errProtocol), errors.Is(err, errUnclear),
		errors.Is(err, net.ErrClosed), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, io.ErrClosedPipe), mean(err).class == gone:
		return true
	}
	// What the connection's Write says (reset, timeout, a TLS alert) reaches the
	// caller as it is.
	var network net.Error
	var op *net.OpError
	return errors.As(err, &network) || errors.As(err, &op)
}

// errUnclear marks the answer to a commit that does not say what became of it.
var errUnclear = errors.New("the answer does not say whether it was done")

// readError maps what the server said to a read.
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

// tries are those of one request that was answered, and not with what was asked for.
type tries struct {
	bout  driver.Bout
	pause driver.Pause
}

// again waits before a request is sent again. It is false if that has gone on for longer than a
// session lasts without heartbeats.
func (t *tries) again(ctx context.Context, s *session, err error) bool {
	if t.bout.Over(s.TTL()) {
		return false
	}
	s.cfg.Logger.Debug("zookeeper: a request is refused; trying again", "session", s.ID(), "error", err)
	_ = s.Pause(ctx, &t.pause) // what ends it the next try meets, too
	return true
}
