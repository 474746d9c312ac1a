package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/internal/must"
)

func openFiles(t *testing.T, dir string) *Files {
	t.Helper()
	return must.Get(OpenFiles(dir))(t)
}

func TestFilesFenceAllTogether(t *testing.T) {
	files := openFiles(t, t.TempDir())
	require.NoError(t, files.Put(9, "a", []byte("nine")))
	require.ErrorIs(t, files.Put(8, "b", []byte("eight")), errOldToken, "another file, and the same fence")
	require.ErrorIs(t, must.Err(files.Get("b")), os.ErrNotExist)
}

// A token that could not be stored is not accepted: after a crash nobody would know of it.
func TestFilesStoreTheTokenFirst(t *testing.T) {
	dir := t.TempDir()
	files := openFiles(t, dir)
	require.NoError(t, files.Put(3, job, []byte("three")))

	require.NoError(t, os.Mkdir(filepath.Join(dir, "next"), 0o755)) // nothing can be written
	require.Error(t, files.Put(5, job, []byte("five")))
	require.EqualValues(t, 3, files.Highest())
	require.Equal(t, "three", string(must.Get(files.Get(job))(t)))

	require.NoError(t, os.Remove(filepath.Join(dir, "next")))
	require.NoError(t, files.Put(5, job, []byte("five")))
	require.EqualValues(t, 5, openFiles(t, dir).Highest())
}

// It crashed after it had stored a token, and before it had written that token's data.
func TestFilesCrashBetweenTokenAndData(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, openFiles(t, dir).Put(3, job, []byte("three")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "token"), []byte("5"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "next"), []byte("fi"), 0o644))

	files := openFiles(t, dir)
	require.ErrorIs(t, files.Put(3, job, []byte("late write of 3")), errOldToken)
	require.Equal(t, "three", string(must.Get(files.Get(job))(t)))
	require.NoError(t, files.Put(5, job, []byte("five")))
}

func TestFilesTokenUnreadable(t *testing.T) {
	for _, text := range []string{"", "five", "-1", "99999999999999999999"} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "token"), []byte(text), 0o644))
		require.ErrorContains(t, must.Err(OpenFiles(dir)), "token", "to begin at 0 would let every old leader in")
	}
}

func TestFilesNames(t *testing.T) {
	files := openFiles(t, t.TempDir())
	for _, name := range []string{"", ".", "..", "../token", "a/b", "/etc/passwd"} {
		require.ErrorIs(t, files.Put(1, name, nil), errName, name)
		require.ErrorIs(t, must.Err(files.Get(name)), errName, name)
	}
	for _, name := range []string{"token", "next", "data", "..."} {
		require.NoError(t, files.Put(1, name, []byte(name)), "only a name among the others")
	}
}
