// Package must has a test end where a call fails whose result it needs.
package must

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Get ends the test if a call has failed, and returns its result otherwise: v := must.Get(f())(t).
func Get[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return v
	}
}

// First is Get for a call with a second result that does not matter.
func First[T, U any](v T, _ U, err error) func(t testing.TB) T { return Get(v, err) }
