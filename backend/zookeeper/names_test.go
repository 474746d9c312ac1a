package zookeeper

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func entryName(nonce uint64, seq int32) string {
	return namePrefix(formatSession(0x1000002), fmt.Sprintf("%016x", nonce)) + formatSequence(seq)
}

// Pitfall 19: the sequence ends at 2147483647. What is numbered there, or beyond, has no
// order, and does not count.
func TestPitfall19SequenceEnds(t *testing.T) {
	var want, children []string
	for i, seq := range []int32{0, 1, 1e9 - 1, 1e9, math.MaxInt32 - 2, math.MaxInt32 - 1} {
		want = append(want, entryName(uint64(9-i), seq))
	}
	children = slices.Clone(want)
	for i, seq := range []int32{math.MaxInt32, math.MaxInt32, math.MinInt32, math.MinInt32 + 1, -1} {
		late := entryName(uint64(i), seq)
		children = append(children, late)
		assert.True(t, isEnqueued("/d/"+late), "it is this package's all the same")
	}
	rand.Shuffle(len(children), func(i, j int) { children[i], children[j] = children[j], children[i] })
	var got []string
	for _, n := range parseNames(children) {
		got = append(got, n.text)
	}
	assert.Equal(t, want, got)
}

func TestPitfall19FormatsAreJavas(t *testing.T) {
	for seq, want := range map[int32]string{
		0: "0000000000", 7: "0000000007", math.MaxInt32: "2147483647",
		-5: "-000000005", -999999999: "-999999999", -1000000000: "-1000000000", math.MinInt32: "-2147483648",
	} {
		text := entryName(1, seq)
		assert.Equal(t, want, text[nameStart:])
		n, ok := parseName(text)
		require.True(t, ok, text)
		assert.Equal(t, seq, n.seq)
	}
}

// Pitfall 12: a foreign name never crashes and is never taken for a candidate.
func TestPitfall12ForeignNames(t *testing.T) {
	good := entryName(1, 5)
	bad := []string{
		"", "e-", "_c_", "_c_x", "_c_0123", "n_0000000001", "lock-", "-", "0000000001", "t-0123456789abcdef",
		good + "0", good[:len(good)-1], " " + good, good + "\n", "E" + good[1:],
		namePrefix("00000000010000GG", "0000000000000001") + "0000000001",
		namePrefix("0000000001000002", "000000000000000A") + "0000000001",
		namePrefix("0000000001000002", "0000000000000001") + "9999999999",  // over 32 bits
		namePrefix("0000000001000002", "0000000000000001") + "-00000005",   // too short
		namePrefix("0000000001000002", "0000000000000001") + "-0000000005", // too long
		namePrefix("0000000001000002", "0000000000000001") + "-000000000",
		namePrefix("0000000001000002", "0000000000000001") + "+000000005",
		namePrefix("0000000001000002", "0000000000000001") + "00000_0005",
		"e-0000000001000002_0000000000000001-0000000005",
		"ünï", "\xff\xfe",
	}
	for _, text := range bad {
		_, ok := parseName(text)
		assert.False(t, ok, "%q", text)
	}
	names := parseNames(append(slices.Clone(bad), good))
	require.Len(t, names, 1)
	assert.Equal(t, good, names[0].text)
}

// FuzzParseName holds that a name is taken for an entry's only if, written anew, it is the same to
// the byte.
func FuzzParseName(f *testing.F) {
	f.Add(entryName(1, 5))
	f.Add(entryName(1, math.MinInt32))
	f.Add("_c_")
	f.Fuzz(func(t *testing.T, text string) {
		n, ok := parseName(text)
		if ok && namePrefix(text[2:18], n.nonce)+formatSequence(n.seq) != text {
			t.Fatalf("%q was taken for an entry of sequence %d", text, n.seq)
		}
	})
}
