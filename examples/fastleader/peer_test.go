package main

import (
	"fmt"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// world is up to five voters, and their messages. It is a plain value.
type world struct {
	peers              [5]peer // by id, from 1; a missing one has no config
	leaders            [9]int  // by round: the last peer that a majority has followed in it
	broken             bool    // see TestPromise
	said               uint64  // a hash of all messages so far
	timeouts, restarts int     // so many may still come
}

// calm lets twenty beats pass in which the peers hear each other, and returns who leads then.
func (w *world) calm() (leaders []int) {
	var do func(id int, step func(*peer) effects)
	do = func(id int, step func(*peer) effects) {
		if p := &w.peers[id-1]; p.config != nil {
			for _, to := range step(p).to {
				do(to, func(other *peer) effects { return other.receive(p.word()) })
			}
		}
	}
	for beat := range 20 * len(w.peers) {
		do(1+beat%len(w.peers), (*peer).timeout)
	}
	for _, p := range w.peers {
		if p.backed {
			leaders = append(leaders, p.self.ID)
		}
	}
	return leaders
}

// search tries all possible courses of an election, the shortest schedules first. A message may arrive at any
// time, once, again, or never: so this covers delays, losses, copies and partitions. A timeout may come at
// any time. A peer may die and start again.
type search struct {
	zxids              []uint64 // of the voters
	rounds             uint64   // no peer goes beyond this round
	timeouts, restarts int      // so many in a schedule
	most               int      // continue from so many schedules of each length, at random; 0: from all
	config                      // the rules
	until              func(*world) bool
}

func (v vote) String() string {
	return fmt.Sprintf("hears %d: %s, round %d, for %v", v.Self.ID, v.State, v.Round, v.For)
}

// place is a state that a search has reached, and how.
type place struct {
	world
	words  []vote // all messages so far
	step   string
	before *place
}

// run returns the shortest schedule to a world that the search is for, or "" if there is none.
func (s search) run(t *testing.T) (schedule string) {
	seen, seed := make(map[uint64]bool), maphash.MakeSeed()
	median := slices.Sorted(slices.Values(s.zxids))[len(s.zxids)/2]
	told := ""
	s.say = func(id int, line string) { told += fmt.Sprintf("\n\t%d %s", id, line) }
	at := &place{world: world{timeouts: s.timeouts, restarts: s.restarts}}
	for i, zxid := range s.zxids {
		s.voters = append(s.voters, i+1)
		at.peers[i] = peer{config: &s.config, self: ballot{i + 1, zxid}}
	}
	s.patience = 1 // so that schedules are short
	var next []*place
	try := func(to world, id int, what any, step func(*peer) effects) {
		told = ""
		p, words := &to.peers[id-1], at.words
		if step(p); !slices.Contains(words, p.word()) {
			words = append(slices.Clip(words), p.word())
			to.said ^= maphash.Comparable(seed, p.word())
		}
		if p.backed {
			last := &to.leaders[p.term]
			to.broken = to.broken || p.self.Zxid < median || *last != 0 && *last != id
			*last = id
		}
		if key := maphash.Comparable(seed, to); p.round <= s.rounds && !seen[key] {
			seen[key] = true
			next = append(next, &place{to, words, fmt.Sprint(id, " ", what, told), at})
		}
	}
	for _, id := range s.voters {
		try(at.world, id, "starts", (*peer).start)
		at, next = next[0], nil
	}
	for level := []*place{at}; len(level) > 0 && schedule == ""; level, next = next, nil {
		if s.most > 0 {
			rand.New(rand.NewPCG(1, uint64(len(seen)))).Shuffle(len(level), func(i, j int) { level[i], level[j] = level[j], level[i] })
			level = level[:min(s.most, len(level))]
		}
		for _, at = range level {
			if s.until(&at.world) {
				for ; at.before != nil; at = at.before {
					schedule = at.step + "\n" + schedule
				}
				break
			}
			for _, id := range s.voters {
				for _, v := range at.words {
					try(at.world, id, v, func(p *peer) effects { return p.receive(v) })
				}
				if to := at.world; to.timeouts > 0 {
					to.timeouts--
					try(to, id, "has waited", (*peer).timeout)
				}
				if to := at.world; to.restarts > 0 {
					to.restarts--
					to.peers[id-1].round = 0
					try(to, id, "DIES, and starts again", (*peer).start)
				}
			}
		}
	}
	t.Logf("%d states\n%s", len(seen), schedule)
	return schedule
}

func broken(w *world) bool { return w.broken }

// While no peer starts again, in each round a majority comes to follow at most one leader, whose log goes as
// far as those of a majority. Once the network is calm there is one leader. The first two searches see all of
// one round, the last one a part of four.
func TestPromise(t *testing.T) {
	for _, s := range []search{
		{zxids: []uint64{5, 5, 5}, rounds: 1, timeouts: 4, config: usual},
		{zxids: []uint64{7, 5, 6}, rounds: 1, timeouts: 4, config: usual},
		{zxids: []uint64{7, 5, 7}, rounds: 4, timeouts: 12, most: 50, config: usual},
	} {
		s.until = func(w *world) bool {
			later := *w
			return w.broken || len(later.calm()) != 1
		}
		assert.Empty(t, s.run(t))
	}
}

// The followers of a dead leader do not elect it again, on each other's word.
func TestDeadLeader(t *testing.T) {
	var w world
	c := usual
	c.voters, c.say = []int{1, 2, 3, 4, 5}, func(int, string) {}
	for i := range w.peers {
		w.peers[i] = peer{config: &c, self: ballot{i + 1, 5}}
		w.peers[i].start()
	}
	assert.Equal(t, []int{5}, w.calm())
	w.peers[4] = peer{}
	assert.Equal(t, []int{4}, w.calm())
}

// Anybody can send anything. Only a vote of another voter for a voter has an effect.
func TestHostile(t *testing.T) {
	c := usual
	c.voters, c.say = []int{1, 2, 3}, func(int, string) {}
	p := peer{config: &c, self: ballot{1, 5}, state: looking}
	for _, v := range []vote{
		{9, looking, ballot{1, 9}, ballot{2, 9}},              // itself
		{9, looking, ballot{7, 9}, ballot{2, 9}},              // an unknown voter
		{9, looking, ballot{2, 9}, ballot{7, 9}},              // for an unknown voter
		{9, "", ballot{2, 9}, ballot{2, 9}},                   // in no state
		{math.MaxUint64, looking, ballot{2, 9}, ballot{2, 9}}, // in a round that 0 follows
	} {
		was := p
		p.receive(v)
		assert.True(t, p == was, "%v", v)
	}
}

// A changed vote comes after the 200 ms, and two peers have the votes of a majority. Only one of them can be
// followed by a majority.
func TestElectedTwice(t *testing.T) {
	s := search{zxids: []uint64{5, 5, 5}, rounds: 1, timeouts: 2, config: usual}
	s.until = func(w *world) bool { return w.peers[1].state == leading && w.peers[2].state == leading }
	assert.NotEmpty(t, s.run(t))
}

// A leader has not heard yet that its followers are in a later round, and follow another one.
func TestTwoRounds(t *testing.T) {
	s := search{zxids: []uint64{5, 5, 5}, rounds: 2, timeouts: 3, config: usual}
	s.until = func(w *world) bool { return w.peers[1].backed && w.peers[2].backed }
	assert.NotEmpty(t, s.run(t))
}

// A peer that starts again follows a second leader in the same round.
func TestForgottenRound(t *testing.T) {
	s := search{zxids: []uint64{5, 5, 5}, rounds: 1, timeouts: 2, restarts: 1, config: usual, until: broken}
	assert.NotEmpty(t, s.run(t))
}

// TestMutants breaks the rules of the election, and holds that the search finds it.
func TestMutants(t *testing.T) {
	s := search{zxids: []uint64{7, 7, 5}, rounds: 1, timeouts: 2, config: usual, until: broken}
	s.better = func(a, b ballot) bool { return a.ID > b.ID }
	assert.NotEmpty(t, s.run(t), "the id is compared before the zxid")

	s = search{zxids: []uint64{5, 5, 5}, rounds: 2, timeouts: 3, config: usual, until: broken}
	s.quorum = func(votes, voters int) bool { return votes >= voters/2 }
	assert.NotEmpty(t, s.run(t), "half of the votes are enough")
}

// TestMain lets the demonstration start this program as fastleader.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test.") {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestDemo makes real processes elect. The demonstration itself waits for the lines of each scene.
func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-all tries it: a machine that stands still has other leaders")
	}
	out, err := exec.Command(os.Args[0], "demo").CombinedOutput()
	assert.NoError(t, err, "%s", out)
	before, _, _ := strings.Cut(string(out), "=== KILL")
	assert.NotRegexp(t, "[145]  is LEADING", before, "who has no majority, or comes late")
}
