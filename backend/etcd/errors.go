package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/elector-go/elector/backend"
)

// opError wraps an error once with backend, operation and key.
func opError(op, key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("etcd: %s %s: %w", op, key, err)
}

// as makes an error that is the sentinel and the client's own error.
func as(sentinel, native error) error { return fmt.Errorf("%w: %w", sentinel, native) }

// code is the gRPC code of a client's error.
func code(err error) codes.Code {
	var server rpctypes.EtcdError
	if errors.As(err, &server) {
		return server.Code()
	}
	return status.Code(err)
}

// isTransient tells whether an error says nothing about the request: no server
// could be reached, or the answer did not come. Whether the server has acted on it
// is not known.
func isTransient(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	switch code(err) {
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded:
		return true
	case codes.ResourceExhausted:
		return is(err, rpctypes.ErrTooManyRequests)
	case codes.Unknown: // while a leader hands over; the server has no code for it
		return strings.Contains(err.Error(), "raft proposal dropped")
	}
	return false
}

// isUnclear tells whether an error does not say that nothing was done, and is not
// sure to pass with time either.
func isUnclear(err error) bool {
	switch code(err) {
	case codes.Unknown, codes.Internal:
		return !isTransient(err)
	case codes.ResourceExhausted:
		if is(err, rpctypes.ErrNoSpace) {
			return true // a server that finds no room as it applies a transaction applies it, and says this
		}
		// Of gRPC, not of etcd: an answer larger than the client takes.
		var server rpctypes.EtcdError
		return !errors.As(err, &server) && !strings.Contains(err.Error(), "trying to send")
	}
	return false
}

func isDenied(err error) bool {
	switch code(err) {
	case codes.PermissionDenied, codes.Unauthenticated:
		return true
	}
	return is(err, rpctypes.ErrUserEmpty) || is(err, rpctypes.ErrAuthFailed)
}

// is compares with one of the server's errors, whether or not the client has turned
// it into its own kind.
func is(err, target error) bool {
	return errors.Is(err, target) || errors.Is(rpctypes.Error(err), target)
}

// answerError maps what the server said to a request.
func answerError(err error) error {
	switch {
	case err == nil:
		return nil
	case isDenied(err):
		return as(backend.ErrDenied, err)
	case is(err, rpctypes.ErrRequestTooLarge), is(err, rpctypes.ErrTooManyOps),
		code(err) == codes.ResourceExhausted && !is(err, rpctypes.ErrNoSpace): // the client's own limit
		return as(backend.ErrTooLarge, err)
	}
	return err
}
