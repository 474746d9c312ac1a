// Package unhurried marks requests for which nobody waits: backend.Share lets others go first.
package unhurried

import "context"

type key struct{}

// Context returns a ctx for such requests.
func Context(ctx context.Context) context.Context { return context.WithValue(ctx, key{}, true) }

// Is reports whether ctx is for such requests.
func Is(ctx context.Context) bool { return ctx.Value(key{}) != nil }
