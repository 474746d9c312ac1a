package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/companion"
)

// Open is a backend.Backend's Open: it fills in the timeout and checks it, and wraps the error. open asks
// the service for a session.
func Open[D backend.Driver](ctx context.Context, b backend.Backend, o backend.OpenOptions, open func(ctx context.Context, ttl time.Duration) (D, error)) (*backend.Session, error) {
	limits := b.Limits()
	ttl, err := cmp.Or(o.TTL, limits.DefaultTTL), error(nil)
	switch {
	case companion.Marked:
		err = companion.ErrOpens
	case ttl < limits.MinTTL || ttl > limits.MaxTTL:
		err = fmt.Errorf("TTL of %v is not between %v and %v", ttl, limits.MinTTL, limits.MaxTTL)
	case ctx.Err() != nil:
		err = ContextError(ctx)
	default:
		var d D
		if d, err = open(ctx, ttl); err == nil {
			return backend.NewSession(b.String(), d), nil
		}
	}
	return nil, fmt.Errorf("%s: open: %w", b, err)
}

// Of returns the driver of a session, below all layers, if it is a D, and otherwise D's zero value. It is
// for functions of a backend's package that take a session of its own. s may be nil.
func Of[D backend.Driver](s *backend.Session) (own D) {
	if s != nil {
		own, _ = s.Driver().(D)
	}
	return own
}

// Conditions is for a function of a backend's package, called what, that turns conditions into those of the
// service, for a user's own transaction. It calls of with the session below s, which must be a D.
func Conditions[D interface {
	comparable
	backend.Driver
	Over(context.Context) error
}, T any](ctx context.Context, what string, s *backend.Session, conditions []backend.Condition, of func(own D) (T, error)) (made T, err error) {
	var none D
	own := Of[D](s)
	if own == none {
		return made, fmt.Errorf("%s: the session is not of this package", what)
	}
	if err = cmp.Or(backend.CheckConditions(conditions), own.Over(ctx)); err == nil {
		made, err = of(own)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", what, err)
	}
	return made, err
}

// RemoveBy returns a LifeOptions.Remove that calls a driver's Commit. commit must take no turns: a turn may
// wait for what is removed.
func RemoveBy(commit func(context.Context, []backend.Condition, ...backend.Op) ([]backend.Entry, error)) func(context.Context, backend.Entry) error {
	return func(ctx context.Context, e backend.Entry) error {
		_, err := commit(ctx, nil, backend.Delete(e))
		if errors.Is(err, backend.ErrNoEntry) {
			return nil
		}
		return err
	}
}
