package zookeeper

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
)

func entryName(nonce uint64, seq int32) string {
	return namePrefix(formatSession(0x1000002), fmt.Sprintf("%016x", nonce)) + formatSequence(seq)
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

// formatSequence formats as Java does, with the same format string.
func formatSequence(seq int32) string { return fmt.Sprintf("%010d", seq) }

var enqueued = regexp.MustCompile(`^e-[0-9a-f]{16}-([0-9a-f]{16})-(-?[0-9]+)$`)

// FuzzParseName checks that a name is treated as an entry's exactly if Enqueue makes such names, and
// what parseName returns for it. So a foreign name is never treated as a candidate (pitfall 12).
func FuzzParseName(f *testing.F) {
	for _, seq := range []int32{0, 12, lastNumber - 1, lastNumber, -12, math.MinInt32} {
		for range 50 {
			b := []byte(entryName(rand.Uint64(), seq))
			f.Add(string(b))
			b[rand.IntN(len(b))] = "-0129afgAz+ "[rand.IntN(12)]
			f.Add(string(b))
			f.Add(string(b[:rand.IntN(len(b))]))
		}
	}
	good, prefix := entryName(1, 5), namePrefix("0000000001000002", "0000000000000001")
	for _, foreign := range []string{
		"", "e-", "_c_", "_c_x", "_c_0123", "n_0000000001", "lock-", "-", "0000000001", "t-0123456789abcdef",
		good + "0", good[:len(good)-1], " " + good, good + "\n", "E" + good[1:],
		namePrefix("00000000010000GG", "0000000000000001") + "0000000001",
		namePrefix("0000000001000002", "000000000000000A") + "0000000001",
		prefix + "9999999999",  // over 32 bits
		prefix + "-00000005",   // too short
		prefix + "-0000000005", // too long
		prefix + "-000000000", prefix + "+000000005", prefix + "00000_0005",
		"e-0000000001000002_0000000000000001-0000000005",
		"ünï", "\xff\xfe",
	} {
		f.Add(foreign)
	}
	f.Fuzz(func(t *testing.T, text string) {
		want, is := name{}, false
		if parts := enqueued.FindStringSubmatch(text); parts != nil {
			seq, err := strconv.ParseInt(parts[2], 10, 32)
			want, is = name{text, parts[1], int32(seq)}, err == nil && formatSequence(int32(seq)) == parts[2]
		}
		if n, ok := parseName(text); ok != is || ok && n != want {
			t.Errorf("%q is taken for %+v, %t; want %+v, %t", text, n, ok, want, is)
		}
		if ok := isCounted([]byte(text)); ok != (is && want.counts()) {
			t.Errorf("%q counts: %t; want %+v, %t", text, ok, want, is)
		}
	})
}

// Pitfall 19: the sequence ends at 2147483647. Entries numbered there, or beyond, have no order, and do
// not count. FuzzQueue checks that names sort in the order in which the server has numbered them, for
// any state of the counter, that those past its end do not count, and that other names in the directory
// and the server's order of names do not matter.
func FuzzQueue(f *testing.F) {
	f.Add(int32(0), []byte{1, 2, 3}, "e-")
	f.Add(int32(-3), []byte{0, 0, 0, 0, 0, 0}, "lock-0000000001")
	f.Add(int32(1<<31-3), []byte{0, 0, 0, 0}, "\xff")
	f.Add(int32(1<<31-2), []byte{0, 255, 255, 0}, "\xff")
	f.Add(int32(-1<<31), []byte{255, 255, 255}, "")
	f.Add(int32(1e9-1), []byte{0, 0}, "") // more digits
	f.Fuzz(func(t *testing.T, start int32, steps []byte, foreign string) {
		if len(steps) > 100 {
			return
		}
		if _, ok := parseName(foreign); ok {
			return
		}
		var want, all []string
		seq := start
		for _, step := range steps {
			name := entryName(rand.Uint64(), seq)
			all = append(all, name)
			if !isEnqueued("/d/" + name) {
				t.Errorf("%q is this package's, with any number", name)
			}
			if seq >= 0 && seq < math.MaxInt32 {
				want = append(want, name)
			}
			seq = int32(min(int64(seq)+1+int64(step)<<16, math.MaxInt32))
		}
		children := append(slices.Clone(all), foreign, foreign+"0", "x"+foreign)
		for _, name := range want { // what resembles an entry most, and is none
			children = append(children, name+"0", name+"-", "x"+name, strings.ToUpper(name))
		}
		rand.Shuffle(len(children), func(i, j int) { children[i], children[j] = children[j], children[i] })
		var got []string
		for _, n := range parseNames(children) {
			got = append(got, n.text)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// FuzzVersion checks that versions are distinguished, and that the server is never asked for its "any
// version" if one was meant.
func FuzzVersion(f *testing.F) {
	for _, v := range []uint64{0, 1, 1 << 31, 1<<31 + 1, 1<<32 - 1, 1 << 32, 1<<32 + 1, 1<<64 - 1} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, version uint64) {
		server, ok := fromVersion(version)
		if ok && (toVersion(server) != version || server == anyVersion) {
			t.Errorf("version %d is the server's %d, which is version %d", version, server, toVersion(server))
		}
		if !ok && version != 0 && version <= 1<<32 && version != toVersion(-1) {
			t.Errorf("version %d is refused", version)
		}
	})
}

// FuzzMark checks that a directory's data is overwritten only if it is not a user's value.
func FuzzMark(f *testing.F) {
	f.Add([]byte(nil))
	f.Add([]byte("elector-create-"))
	f.Add([]byte("elector-create-0123456789abcdef"))
	f.Add([]byte("elector-create-0123456789ABCDEF"))
	f.Add([]byte("elector-create-0123456789abcdef\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		nonce, _ := strings.CutPrefix(string(data), markPrefix)
		is := len(data) == 0 || string(mark(nonce)) == string(data) && len(nonce) == 2*8 && strings.Trim(nonce, "0123456789abcdef") == ""
		if isMark(data) != is {
			t.Errorf("isMark(%q) = %t", data, !is)
		}
	})
}

// FuzzChecks checks that for any guarded entry the first check is on its very path, or an error says
// which key it is and why. There is no server: an enqueued entry, and one whose version is the
// condition, take no round trip.
func FuzzChecks(f *testing.F) {
	s := newSession(&Config{Chroot: "/root"}, new(ballot), 0)
	s.live()
	queued := entryName(1, 5)
	f.Add("/d/seat", uint64(5), uint64(1))
	f.Add("/d/"+queued, uint64(5), uint64(1))
	f.Add("/d/"+queued+"0", uint64(5), uint64(0))
	f.Add("/d", uint64(0), uint64(0))
	f.Add("/d", uint64(1<<64-1), uint64(1<<32))
	f.Add("/d/\n", uint64(1), uint64(1))
	f.Fuzz(func(t *testing.T, key string, rev, version uint64) {
		e := backend.Entry{Key: key, Rev: rev, Version: version}
		exact := !isEnqueued(key)
		checks, err := Checks(t.Context(), backend.NewSession("zookeeper", s), backend.Condition{Entry: e, Exact: exact})
		_, can := fromVersion(version)
		switch wrong := backend.CheckKey(key); {
		case wrong != nil:
			if !errors.Is(err, backend.ErrBadKey) || !strings.Contains(err.Error(), wrong.Error()) {
				t.Fatalf("guard on %q: %v", key, err)
			}
			return
		case rev == 0, exact && !can:
			if !errors.Is(err, backend.ErrCondition) || !strings.Contains(err.Error(), key) {
				t.Fatalf("guard on %+v: %v", e, err)
			}
			return
		case err != nil || len(checks) != 1:
			t.Fatalf("guard on %+v: %v, %v", e, checks, err)
		}
		check, ok := checks[0].(*zk.CheckVersionRequest)
		if !ok || check.Path != "/root"+key || exact == (check.Version == anyVersion) || exact && toVersion(check.Version) != version {
			t.Errorf("check %+v for %+v", checks[0], e)
		}
	})
}

// FuzzServers checks that a server is accepted only if it can be dialled, and that a refusal names it.
func FuzzServers(f *testing.F) {
	for _, server := range []string{"", "h", "h:1", "h:0", "h:65536", ":1", "h:x", "[::1]:2181", "h:1:2", "h:-1", "h:\n"} {
		f.Add(server, "")
		f.Add(server, "/chroot")
	}
	f.Fuzz(func(t *testing.T, server, chroot string) {
		err := (&Config{Servers: []string{server}, Chroot: chroot}).Validate()
		bad := backend.CheckKey(chroot)
		if chroot == "" {
			bad = nil
		}
		switch {
		case err == nil && bad != nil:
			t.Errorf("chroot %q is accepted: %v", chroot, bad)
		case err != nil && strings.Contains(err.Error(), "Chroot") != (bad != nil):
			t.Errorf("chroot %q: %v", chroot, err)
		case err != nil && bad == nil && !strings.Contains(err.Error(), "Servers[0]"):
			t.Errorf("server %q: %v", server, err)
		case err == nil && !strings.Contains(server, ":"):
			t.Errorf("server %q is accepted", server)
		}
	})
}
