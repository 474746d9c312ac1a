package driver

import "context"

type triedKey struct{}

// WithTried returns a ctx with which an Executor tells tried why each attempt has failed after which it goes on. tried
// must not block.
func WithTried(ctx context.Context, tried func(error)) context.Context {
	return context.WithValue(ctx, triedKey{}, tried)
}

// Tried tells the function of WithTried, if there is one.
func Tried(ctx context.Context, err error) {
	if tried, ok := ctx.Value(triedKey{}).(func(error)); ok {
		tried(err)
	}
}
