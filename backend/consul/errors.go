package consul

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector/backend"
)

// opError wraps an error once with backend, operation and key.
func opError(op, key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("consul: %s %s: %w", op, key, err)
}

// as makes an error that is the sentinel and the client's own error.
func as(sentinel, native error) error { return fmt.Errorf("%w: %w", sentinel, native) }

// transient tells whether an error says nothing about the request: no answer came,
// or one of a server that cannot answer (5xx). Whether it has acted on the request is
// not known: even "leadership lost while committing log" may have been done.
func transient(err error) bool {
	if err == nil {
		return false
	}
	if errors.Is(err, backend.ErrSessionLost) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var status api.StatusError
	return !errors.As(err, &status) || status.Code >= http.StatusInternalServerError
}

// unsent tells whether a request cannot have got to a server.
func unsent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// code returns the status of an error that is a server's answer, or 0.
func code(err error) int {
	var status api.StatusError
	if errors.As(err, &status) {
		return status.Code
	}
	return 0
}

// answerError maps what the server said, other than that it cannot answer.
func answerError(err error) error {
	switch code(err) {
	case http.StatusForbidden, http.StatusUnauthorized:
		return as(backend.ErrDenied, err)
	case http.StatusRequestEntityTooLarge:
		return as(backend.ErrTooLarge, err)
	case http.StatusTooManyRequests:
		return fmt.Errorf("%w: the agent takes no more connections from this address: raise limits.http_max_conns_per_client (200 by default), "+
			"as each entry that is waited for has a connection: %w", backend.ErrUnavailable, err)
	case http.StatusBadRequest:
		return as(backend.ErrBadKey, err)
	}
	return err
}

// openError maps what went wrong with opening a session.
func openError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return backend.ContextError(ctx)
	case strings.Contains(err.Error(), "Invalid Session TTL"): // 500, and for good
		return fmt.Errorf("the servers do not take the session's TTL: choose another SessionTimeout, or change their session_ttl_min: %w", err)
	case code(err) == http.StatusBadRequest || errors.Is(err, backend.ErrUnavailable):
		return err
	case code(err) != 0 && code(err) < http.StatusInternalServerError:
		return answerError(err)
	}
	return as(backend.ErrUnavailable, err)
}

// Read transactions go through a function of the client library that drops the
// status and leaves the text.
func textError(err error) error {
	text, ok := strings.CutPrefix(err.Error(), "Failed request: ")
	if !ok {
		return err
	}
	status := api.StatusError{Code: http.StatusInternalServerError, Body: strings.TrimSpace(text)}
	switch {
	case strings.Contains(text, "Permission denied"), strings.Contains(text, "ACL not found"):
		status.Code = http.StatusForbidden
	case strings.Contains(text, "too many concurrent connections"):
		status.Code = http.StatusTooManyRequests
	}
	return status
}
