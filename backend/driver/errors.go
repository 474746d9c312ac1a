package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/elector-go/elector/backend"
)

// Indeterminate is the error of a commit of which it is not known, for this reason,
// whether it was applied. Only that a context has ended, or the session, is still to be
// found in it: other sentinels say that nothing was written.
func Indeterminate(why error) error {
	for _, end := range []error{context.Canceled, context.DeadlineExceeded, backend.ErrSessionLost} {
		if errors.Is(why, end) {
			return fmt.Errorf("%w: %w", backend.ErrIndeterminate, why)
		}
	}
	return fmt.Errorf("%w: %v", backend.ErrIndeterminate, why)
}

// ofCalls are all sentinels. What a call returns says by them what became of that call.
var ofCalls = []error{
	backend.ErrNoEntry, backend.ErrExists, backend.ErrNoParent, backend.ErrUsedUp, backend.ErrCondition, backend.ErrConflict, backend.ErrIndeterminate,
	backend.ErrSessionLost, backend.ErrStanding, backend.ErrUnavailable, backend.ErrDenied, backend.ErrBadKey, backend.ErrTooLarge,
}

// ContextError is the error of a context that has ended, with its cause. Of a cause that is
// one of package backend's errors there is only the text: a context may end because another
// session was lost, and the one that is asked live on.
func ContextError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	switch {
	case cause == nil || errors.Is(cause, err):
		return err
	case slices.ContainsFunc(ofCalls, func(of error) bool { return errors.Is(cause, of) }):
		return fmt.Errorf("%w: %v", err, cause)
	}
	return fmt.Errorf("%w: %w", err, cause)
}
