// Package unhurried marks requests for which nobody waits: backend.Share lets others go first.
package unhurried

import "context"

type key struct{}

// Context returns a ctx for such requests. When awaited is closed, somebody waits for them after all.
func Context(ctx context.Context, awaited <-chan struct{}) context.Context {
	return context.WithValue(ctx, key{}, awaited)
}

// Awaited returns the channel of a ctx for such requests, or nil for any other.
func Awaited(ctx context.Context) <-chan struct{} {
	awaited, _ := ctx.Value(key{}).(<-chan struct{})
	return awaited
}
