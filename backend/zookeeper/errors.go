package zookeeper

import (
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/go-zookeeper/zk"

	"github.com/elector-go/elector/backend"
)

// opError wraps an error once with backend, operation and key.
func opError(op, key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("zookeeper: %s %s: %w", op, key, err)
}

// as makes an error that is the sentinel and the client's own error.
func as(sentinel, native error) error { return fmt.Errorf("%w: %w", sentinel, native) }

// transient tells whether a call's error says nothing about the request: the
// connection went away before the answer came. Whether the server has acted on
// the request is not known. Everything else is a server's answer, or a request
// that could not be encoded: then nothing was done.
func transient(err error) bool {
	switch {
	case err == nil:
		return false
	case errors.Is(err, zk.ErrConnectionClosed), errors.Is(err, zk.ErrNoServer), errors.Is(err, zk.ErrClosing),
		// The server refuses a request that came in on a session's old
		// connection, and closes that connection.
		errors.Is(err, zk.ErrSessionMoved),
		// An answer with this code, or the flush after an expiry: the session
		// decides what it means, and is lost in both cases.
		errors.Is(err, zk.ErrSessionExpired),
		errors.Is(err, errUnpinned), errors.Is(err, errProtocol),
		errors.Is(err, net.ErrClosed), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, io.ErrClosedPipe):
		return true
	}
	// What the connection's Write says (reset, timeout, a TLS alert) reaches the
	// caller as it is.
	var network net.Error
	var op *net.OpError
	return errors.As(err, &network) || errors.As(err, &op)
}

// readError maps what the server said to a read.
func readError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, zk.ErrNoNode):
		return as(backend.ErrNoEntry, err)
	case denied(err):
		return as(backend.ErrDenied, err)
	case errors.Is(err, zk.ErrInvalidPath), errors.Is(err, zk.ErrBadArguments):
		return as(backend.ErrBadKey, err)
	}
	return err
}

func denied(err error) bool {
	return errors.Is(err, zk.ErrNoAuth) || errors.Is(err, zk.ErrAuthFailed) || errors.Is(err, zk.ErrInvalidACL)
}

// unavailable collects what went wrong on the way to each server.
type unavailable struct {
	errs map[string]error // by server
}

func (u *unavailable) note(server string, err error) {
	if u.errs == nil {
		u.errs = make(map[string]error)
	}
	u.errs[server] = err
}

func (u *unavailable) err() error {
	var all []error
	for server, err := range u.errs {
		all = append(all, fmt.Errorf("%s: %w", server, err))
	}
	return errors.Join(all...)
}
