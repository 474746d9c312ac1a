// Package must is for tests that need only the result or only the error of a call.
package must

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Get returns the result of a call, or ends the test if the call has failed: v := must.Get(f())(t).
func Get[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return v
	}
}

// Err returns the error of a call whose result does not matter: assert.ErrorIs(t, must.Err(f()), want).
func Err[T any](_ T, err error) error { return err }

// First is Get for a call with a second result that does not matter.
func First[T, U any](v T, _ U, err error) func(t testing.TB) T { return Get(v, err) }
