// Package must is for tests that need only one of the two that a call returns: its result, or its error.
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

// Err is the error of a call whose result does not matter: assert.ErrorIs(t, must.Err(f()), want).
func Err[T any](_ T, err error) error { return err }

// First is Get for a call with a second result that does not matter.
func First[T, U any](v T, _ U, err error) func(t testing.TB) T { return Get(v, err) }
