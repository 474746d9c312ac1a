package main

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func openTest(t *testing.T, dir string) *journal {
	t.Helper()
	j, err := openJournal(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = j.close() }) // twice, if the test has
	return j
}

func TestJournal(t *testing.T) {
	dir := t.TempDir()
	j := openTest(t, dir)
	_, err := j.write(5, "a")
	require.NoError(t, err)
	at, err := j.write(5, "b")
	require.NoError(t, err)
	require.Equal(t, position{5, 2}, at)

	// Fencing: a lower token is refused, in any kind of write, and after a restart, too.
	end, err := j.claim(7)
	require.NoError(t, err)
	require.Equal(t, at, end)
	require.NoError(t, j.close())
	j = openTest(t, dir)
	_, err = j.write(6, "late")
	require.ErrorIs(t, err, errOld)
	_, err = j.put(6, at, []record{{6, "late"}})
	require.ErrorIs(t, err, errOld)
	_, err = j.claim(6)
	require.ErrorIs(t, err, errOld)
	_, err = j.claim(0)
	require.ErrorIs(t, err, errOld)

	// What differs goes, and what is the same stays.
	at, err = j.put(7, position{5, 1}, []record{{6, "B"}, {7, "c"}})
	require.NoError(t, err)
	require.Equal(t, position{7, 3}, at)
	at, err = j.put(7, position{}, []record{{5, "a"}, {6, "B"}}) // again: a reply was lost
	require.NoError(t, err)
	require.Equal(t, position{6, 2}, at)
	require.Equal(t, position{7, 3}, j.ending())

	// A predecessor that is not there.
	for _, c := range []struct{ prev, next position }{
		{position{7, 9}, position{7, 3}},
		{position{7, 2}, position{5, 1}},
		{position{8, 1}, position{}},
		{position{7, -1}, position{7, 3}},
	} {
		next, err := j.put(7, c.prev, []record{{7, "x"}})
		require.ErrorIs(t, err, errGap)
		require.Equal(t, c.next, next)
	}

	// A crash in the middle of a line.
	require.NoError(t, j.close())
	file, err := os.OpenFile(filepath.Join(dir, "log"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = file.WriteString(`{"token":7,"da`)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	j = openTest(t, dir)
	_, records, _ := j.read(0)
	require.Equal(t, []record{{5, "a"}, {6, "B"}, {7, "c"}}, records)
	_, err = j.write(7, "d")
	require.NoError(t, err)
	require.NoError(t, j.close())
	require.Equal(t, position{7, 4}, openTest(t, dir).ending())
}

// A primary brings any log to be as its own, by what put tells it.
func TestCatchUp(t *testing.T) {
	seeds := uint64(100)
	if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 1))
		var common, own, theirs []record
		token := uint64(1)
		extend := func(records []record, n int) []record {
			for range n {
				token += uint64(random.IntN(2))
				records = append(records, record{token, string(rune('a' + random.IntN(26)))})
			}
			return records
		}
		common = extend(common, random.IntN(6))
		theirs = extend(append(theirs, common...), random.IntN(6))
		token += uint64(1)
		own = extend(append(own, common...), random.IntN(6))

		j := openTest(t, t.TempDir())
		_, err := j.put(token, position{}, theirs)
		require.NoError(t, err)
		primary := openTest(t, t.TempDir())
		_, err = primary.put(token, position{}, own)
		require.NoError(t, err)
		next := j.ending().Index
		for tries := 0; ; tries++ {
			require.Less(t, tries, 20, "seed %d", seed)
			prev, records, _ := primary.read(next)
			at, err := j.put(token, prev, records)
			if err == nil {
				require.Equal(t, primary.ending(), at)
				break
			}
			require.ErrorIs(t, err, errGap)
			require.Less(t, at.Index, prev.Index)
			next = at.Index
		}
		_, records, _ := j.read(0)
		require.True(t, slices.Equal(own, records[:len(own)]), "seed %d", seed)
	}
}
