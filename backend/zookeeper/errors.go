package zookeeper

import (
	"cmp"
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
		return fmt.Errorf("%w: the ACL gives the right to none of Config.Auth, Config.SASL and a client certificate; or a password of Config.Auth is wrong: %w", sentinel, native)
	}
	if code, ok := codeOf(native); ok && words[code] != "" {
		return fmt.Errorf("%w: %s: %w", sentinel, words[code], native)
	}
	return fmt.Errorf("%w: %w", sentinel, native)
}

// words say what the client library has only a number for.
var words = map[int32]string{
	-119: "the server is in read-only mode: it has lost touch with the others",
	-120: "the servers' sessions are local, and can hold no entry: set localSessionsUpgradingEnabled=true in their zoo.cfg",
	-124: "the server wants clients that authenticate: give it Config.SASL or Config.Auth (in the environment ZOOKEEPER_AUTH_FILE)",
	-125: "a quota on the path, or on one above it, is used up",
	-127: "the server throttles requests",
}

// codeAnswers maps the servers' codes, as in KeeperException.Code. Only Over with the code of an
// expired session ends a session: heartbeats ride out all others, until the trust window ends. A code
// in the reply to a multi's part says that nothing of the multi was done.
var codeAnswers = map[int32]driver.Meaning{
	-1:   driver.Unknown,                     // SYSTEMERROR
	-2:   driver.Unknown,                     // RUNTIMEINCONSISTENCY; of a multi's part: another one has failed
	-3:   driver.Unknown,                     // DATAINCONSISTENCY
	-4:   driver.Unknown,                     // CONNECTIONLOSS
	-5:   driver.NotDone,                     // MARSHALLINGERROR: all failures before a transaction is proposed
	-6:   driver.Final,                       // UNIMPLEMENTED: the server is too old
	-7:   driver.Unknown,                     // OPERATIONTIMEOUT
	-8:   driver.Final.As(backend.ErrBadKey), // BADARGUMENTS
	-12:  driver.Unknown,                     // UNKNOWNSESSION
	-13:  driver.Unknown,                     // NEWCONFIGNOQUORUM, to operators
	-14:  driver.Unknown,                     // RECONFIGINPROGRESS, to operators
	-100: driver.Unknown,                     // APIERROR
	-101: driver.Final,                       // NONODE
	-102: driver.Final.As(backend.ErrDenied), // NOAUTH
	-103: driver.Final,                       // BADVERSION
	-108: driver.Final,                       // NOCHILDRENFOREPHEMERALS
	-110: driver.Final,                       // NODEEXISTS
	-111: driver.Final,                       // NOTEMPTY
	-112: driver.Over,                        // SESSIONEXPIRED: the session decides what it means, and is lost
	-113: driver.Unknown,                     // INVALIDCALLBACK
	-114: driver.Final.As(backend.ErrDenied), // INVALIDACL
	-115: driver.Final.As(backend.ErrDenied), // AUTHFAILED
	-116: driver.Over,                        // CLOSING
	-117: driver.Unknown,                     // NOTHING
	-118: driver.Over,                        // SESSIONMOVED: it came in on the session's old link, and the server closes that
	-119: driver.NotDone,                     // NOTREADONLY: the server has no quorum, another one may
	-121: driver.Final,                       // NOWATCHER
	-122: driver.Unknown,                     // REQUESTTIMEOUT
	-123: driver.Final,                       // RECONFIGDISABLED
	-124: driver.Final.As(backend.ErrDenied), // SESSIONCLOSEDREQUIRESASLAUTH
	-125: driver.NotDone.AtOnce(),            // QUOTAEXCEEDED: an operator makes room, which takes longer than a call should wait in silence
	-127: driver.NotDone,                     // THROTTLEDOP: it waited for too long in the server's queue, and was removed
	// EPHEMERALONLOCALSESSION: the servers do not make it global.
	-120: driver.Final.As(errors.ErrUnsupported),
	// Our own code, see package wire. A write was done.
	wire.CodeTooLong: driver.Unknown.As(backend.ErrTooLarge).AtOnce(),
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
func mean(err error) driver.Meaning {
	code, ok := codeOf(err)
	if !ok {
		return driver.Final
	}
	return cmp.Or(codeAnswers[code], driver.Unknown)
}

// passing reports whether the request may be sent again on the same link after this reply.
func passing(err error) bool { return !mean(err).Stop }

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
		errors.Is(err, io.ErrClosedPipe), mean(err).Is(driver.Over):
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
	if m := mean(err); m.Sentinel != nil {
		return as(m.Sentinel, err)
	}
	return err
}

func denied(err error) bool { return mean(err).Sentinel == backend.ErrDenied }

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
