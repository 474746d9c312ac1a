package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/elector-go/elector/backend"
)

// Indeterminate returns the error of a commit whose outcome is unknown for the reason why. Of why,
// errors.Is finds only the end of a context or of the session: other sentinels say that nothing was
// written.
func Indeterminate(why error) error {
	for _, end := range []error{context.Canceled, context.DeadlineExceeded, backend.ErrSessionLost} {
		if errors.Is(why, end) {
			return fmt.Errorf("%w: %w", backend.ErrIndeterminate, why)
		}
	}
	return fmt.Errorf("%w: %v", backend.ErrIndeterminate, why)
}

// ofCalls are all sentinels. Each says what became of the call that returns it.
var ofCalls = []error{
	backend.ErrNoEntry, backend.ErrExists, backend.ErrNoParent, backend.ErrUsedUp, backend.ErrCondition, backend.ErrConflict, backend.ErrIndeterminate,
	backend.ErrSessionLost, backend.ErrStanding, backend.ErrUnavailable, backend.ErrDenied, backend.ErrBadKey, backend.ErrTooLarge,
}

// ContextError returns the error of an ended context, with its cause. A cause that is one of package
// backend's errors is there as text only: a context may end because another session was lost, while the
// session of the call lives on.
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
