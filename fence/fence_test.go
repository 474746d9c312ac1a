package fence

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
)

// The tests with databases are in internal/fencetest.

func TestSchema(t *testing.T) {
	for _, c := range []struct {
		dialect Dialect
		table   string
		begins  string // "" if it is refused
	}{
		{PostgreSQL, "", `CREATE TABLE IF NOT EXISTS "elector_fence" (`},
		{SQLite, "main.fence", `CREATE TABLE IF NOT EXISTS "main"."fence" (`},
		{MySQL, "Fence_2", "CREATE TABLE IF NOT EXISTS `Fence_2` ("},
		{0, "", ""},
		{4, "", ""},
		{PostgreSQL, `a"b`, ""},
		{MySQL, "a`b", ""},
		{MySQL, "a.b.c", ""},
		{MySQL, "a.", ""},
		{SQLite, "1a", ""},
		{SQLite, "a b", ""},
		{SQLite, "a\n", ""},
		{PostgreSQL, strings.Repeat("a", 64), ""},
	} {
		statement, err := Schema(c.dialect, c.table)
		if c.begins == "" {
			require.ErrorIs(t, err, elector.ErrConfig, c.table)
			continue
		}
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(statement, c.begins), statement)
	}
}

// The value must be the same in all versions of this package that run concurrently.
func TestGate(t *testing.T) {
	require.EqualValues(t, int64(8944384783243586889), gate("/jobs"))
	require.NotEqual(t, gate("/jobs"), gate("/jobs2"))
}

func TestDialectString(t *testing.T) {
	require.Equal(t, "PostgreSQL MySQL SQLite Dialect(0)",
		strings.Join([]string{PostgreSQL.String(), MySQL.String(), SQLite.String(), Dialect(0).String()}, " "))
}
