package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTableRemembersWhoWrote(t *testing.T) {
	table := openTable(t, t.TempDir())
	require.NoError(t, table.Put(t.Context(), 4, job, "four"))
	value, token, err := table.Get(t.Context(), job)
	require.NoError(t, err)
	require.Equal(t, "four", value)
	require.EqualValues(t, 4, token)

	require.NoError(t, table.Claim(t.Context(), 6, job))
	value, token, err = table.Get(t.Context(), job)
	require.NoError(t, err)
	require.Equal(t, "four", value, "a claim leaves the value")
	require.EqualValues(t, 6, token)
}

func TestTableFencesEachRow(t *testing.T) {
	table := openTable(t, t.TempDir())
	require.NoError(t, table.Put(t.Context(), 9, "a", "nine"))
	require.NoError(t, table.Put(t.Context(), 8, "b", "eight"), "9 has not claimed b")
	require.ErrorIs(t, table.Put(t.Context(), 8, "a", "eight"), errOldToken)
}

func TestTableWithoutTheJob(t *testing.T) {
	table := openTable(t, t.TempDir())
	_, _, err := table.Get(t.Context(), job)
	require.ErrorIs(t, err, errNoJob)
	err = table.Update(t.Context(), 4, job, "four")
	require.ErrorIs(t, err, errNoJob, "not taken for an old token")
	require.NotErrorIs(t, err, errOldToken)
}

// A token that a signed column cannot hold is an error, and not a negative number.
func TestTableTokenTooLarge(t *testing.T) {
	table := openTable(t, t.TempDir())
	require.Error(t, table.Put(t.Context(), 1<<63, job, "huge"))
	require.Error(t, table.Claim(t.Context(), 1<<63, job))
	_, _, err := table.Get(t.Context(), job)
	require.ErrorIs(t, err, errNoJob)
}
