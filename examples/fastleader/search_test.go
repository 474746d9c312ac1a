package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// three are three voters who lose patience at once: there is no time in a search.
func three(zxids ...uint64) layout {
	l := five(zxids...)
	l.patience = 1
	return l
}

// TestPromises goes through all there is in one round, through a part of what there is in
// two with a restart, and far into many rounds at random.
func TestPromises(t *testing.T) {
	both := func(w *world) string { return oneOfARound(w) + mostAdvanced(w) }
	for _, zxids := range [][]uint64{{5, 5, 5}, {7, 5, 6}} {
		s := search{layout: three(zxids...), rounds: 1, timeouts: 4, most: 1e6, rule: both}
		all, err := s.all()
		require.NoError(t, err)
		assert.True(t, all.All)
		assert.Empty(t, all.Broken, "%s", strings.Join(s.replay(all.schedule), "\n"))
		t.Logf("zxids %v: %d states of one round, and that is all", zxids, all.States)

		s.rounds, s.timeouts, s.restarts, s.most = 2, 3, 1, 1e4
		part, err := s.all()
		require.NoError(t, err)
		assert.Empty(t, part.Broken, "%s", strings.Join(s.replay(part.schedule), "\n"))

		s.timeouts, s.restarts, s.most = 12, 3, 5e5
		deep := s.random(1)
		assert.Empty(t, deep.Broken, "%s", strings.Join(s.replay(deep.schedule), "\n"))
		s.layout = three(5, 7, 6, 5, 7)
		deep = s.random(2)
		assert.Empty(t, deep.Broken, "%s", strings.Join(s.replay(deep.schedule), "\n"))
	}
}

// TestFindings finds what votes alone do not promise, and where the original differs.
func TestFindings(t *testing.T) {
	for _, f := range findings() {
		t.Run(f.name, func(t *testing.T) {
			was, err := f.find()
			require.NoError(t, err)
			shows(t, f.search, was, f.broken)
		})
	}
}

// TestZenSplits finds the split brain of Elasticsearch's issue 2488 in simulated time, too.
func TestZenSplits(t *testing.T) {
	l := five(5, 5, 5)
	l.new = newZen
	seed := uint64(0)
	for ; seed < 1000; seed++ {
		s := simulate(l, seed, oneOfARound)
		if s.chaos(30 * time.Second); s.broken != "" {
			t.Logf("seed %d: %s\n%s", seed, s.broken, strings.Join(s.history, "\n"))
			return
		}
	}
	t.Errorf("%d runs, and no two leaders", seed)
}

// firstVoteCounts is a mutant: a box that is full stays as it is.
type firstVoteCounts struct{ *peer }

func (f firstVoteCounts) receive(v vote) effects {
	at := f.place(v.Self.ID)
	was := f.box[at]
	e := f.peer.receive(v)
	if f.state == looking && was.State != 0 && was.Round == f.round {
		f.box[at] = was
		if f.standing = f.enough(f.support(f.box, f.ballot, f.round)); !f.standing {
			e.wait = f.interval
		}
	}
	return e
}

// TestMutants breaks the rules of the election, and sees it found.
func TestMutants(t *testing.T) {
	t.Run("the id is compared before the zxid", func(t *testing.T) {
		s := search{layout: three(7, 7, 5), rounds: 1, timeouts: 2, most: 1e6, rule: mostAdvanced}
		s.better = func(a, b ballot) bool { return a.ID > b.ID }
		finds(t, s, "3 is made leader with zxid 5")
	})
	t.Run("half of the votes are enough", func(t *testing.T) {
		s := search{layout: three(5, 5, 5), rounds: 2, timeouts: 3, most: 1e6, rule: oneOfARound}
		s.quorum = func(votes, of int) bool { return votes >= of/2 }
		finds(t, s, "both made leaders in round 1")
	})
	t.Run("the first vote counts", func(t *testing.T) {
		l := five(5, 5, 5, 5, 5)
		l.new = func(c *config) machine { return firstVoteCounts{newPeer(c).(*peer)} }
		s := simulate(l, 1)
		for _, id := range s.ids() {
			s.start(id)
		}
		assert.False(t, s.until(time.Hour, func() bool { return s.leader() != 0 }), "nobody can be elected")
	})
}

// finds holds that a rule is broken, and that the schedule shows it.
func finds(t *testing.T, s search, broken string) {
	t.Helper()
	f, err := s.all()
	require.NoError(t, err)
	shows(t, s, f, broken)
}

func shows(t *testing.T, s search, f found, broken string) {
	t.Helper()
	lines := strings.Join(s.replay(f.schedule), "\n")
	assert.Contains(t, f.Broken, broken)
	t.Logf("%s; %d states; %d steps\n%s", f.Broken, f.States, len(f.schedule), lines)
	r := s.anew()
	for _, c := range f.schedule {
		r.take(c)
	}
	assert.Equal(t, f.Broken, r.broken, "the same schedule shows the same")
}
