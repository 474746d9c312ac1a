package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// soon is more than an election takes when messages take 5 ms.
const soon = 2 * time.Second

// five are five voters of ZooKeeper's rule.
func five(zxids ...uint64) layout {
	return layout{new: newPeer, zxids: zxids, timing: usual, rules: right}
}

func story(t *testing.T, l layout) *simulation {
	s := simulate(l, 1, oneOfARound, mostAdvanced)
	t.Cleanup(func() {
		assert.Empty(t, s.broken)
		if t.Failed() {
			t.Log("\n" + strings.Join(s.history, "\n"))
		}
	})
	return s
}

// TestOneAfterTheOther is the example of the books: with the third of five there is a
// majority, and those who come later do not unseat it.
func TestOneAfterTheOther(t *testing.T) {
	s := story(t, five(5, 5, 5, 5, 5))
	for id := 1; id <= 2; id++ {
		s.start(id)
		s.run(soon)
	}
	assert.Equal(t, looking, s.is(1).State, "two of five are no majority")
	assert.Equal(t, looking, s.is(2).State)
	s.start(3)
	require.True(t, s.until(soon, func() bool { return s.leader() == 3 }))
	for id := 4; id <= 5; id++ {
		s.start(id)
		require.True(t, s.until(soon, func() bool { return s.leader() == 3 }), "%d has the higher id, and follows", id)
	}
	s.run(time.Minute)
	assert.Equal(t, 3, s.leader())

	s.crash(3)
	require.True(t, s.until(soon, func() bool { return s.leader() == 5 }), "all have the same zxid: the highest id wins")
}

// TestMostAdvancedWins has the leader die, and the one lead whose log goes furthest.
func TestMostAdvancedWins(t *testing.T) {
	s := story(t, five(5, 9, 5, 5, 5))
	for id := 3; id <= 5; id++ {
		s.start(id)
	}
	require.True(t, s.until(soon, func() bool { return s.leader() == 5 }))
	s.start(2)
	s.start(1)
	require.True(t, s.until(soon, func() bool { return s.leader() == 5 }), "2 is more advanced, and late")
	s.crash(5)
	require.True(t, s.until(soon, func() bool { return s.leader() == 2 }), "4 has the higher id, and 2 the higher zxid")
	s.start(5)
	require.True(t, s.until(soon, func() bool { return s.leader() == 2 }), "5 is back, and follows")
}

// TestMinority has no leader without a majority, and one as soon as the cut is healed.
func TestMinority(t *testing.T) {
	s := story(t, five(5, 5, 5, 5, 5))
	for id := range 5 {
		s.start(id + 1)
	}
	require.True(t, s.until(soon, func() bool { return s.leader() == 5 }))
	for _, a := range []int{5, 4} {
		for _, b := range []int{1, 2, 3} {
			s.cut(a, b, true)
		}
	}
	s.run(soon)
	assert.Equal(t, looking, s.is(5).State, "it has lost its majority, and says so by itself")
	assert.Equal(t, status{leading, 3, 2, true}, s.is(3))
	s.heal()
	require.True(t, s.until(2*time.Minute, func() bool { return s.leader() == 3 }), "those who looked hear from those who have settled")
}

// TestObserver follows, and is never counted.
func TestObserver(t *testing.T) {
	l := five(5, 5, 5)
	l.observers = 2
	s := story(t, l)
	s.start(1)
	s.start(4)
	s.start(5)
	s.run(soon)
	assert.Equal(t, looking, s.is(1).State, "two observers make no majority")
	assert.Equal(t, looking, s.is(4).State)
	s.start(2)
	require.True(t, s.until(2*time.Minute, func() bool { return s.leader() == 2 }))
	assert.Equal(t, status{State: observing, Leader: 2, Round: 1}, s.is(4))
	s.crash(2)
	s.start(3)
	require.True(t, s.until(2*time.Minute, func() bool { return s.leader() == 3 }), "it finds the next leader, too")
	assert.Equal(t, observing, s.is(5).State)
}

// TestLate has a server come late whose round is higher than that of the others.
func TestLate(t *testing.T) {
	s := story(t, five(5, 5, 5))
	s.start(3)
	s.cut(3, 1, true)
	s.cut(3, 2, true)
	for range 4 { // in each of its lives it begins with the round that it has stored
		s.crash(3)
		s.saved[2]++
		s.start(3)
	}
	s.start(1)
	s.start(2)
	require.True(t, s.until(soon, func() bool { return s.is(2).Backed }))
	assert.EqualValues(t, 1, s.is(2).Round)
	s.heal()
	require.True(t, s.until(2*time.Minute, func() bool { return s.leader() == 2 }), "a higher round does not unseat those who have settled")
	assert.EqualValues(t, 1, s.is(3).Round)
	s.crash(2)
	require.True(t, s.until(soon, func() bool { return s.leader() == 3 }))
	assert.EqualValues(t, 6, s.is(3).Round, "its round has not fallen")
}

// TestZenFirstOfAll has the same frame elect the smallest id.
func TestZenFirstOfAll(t *testing.T) {
	l := five(5, 5, 5, 5, 5)
	l.new = newZen
	s := simulate(l, 1, oneOfARound)
	s.start(5)
	s.start(4)
	s.run(soon)
	assert.Equal(t, looking, s.is(5).State, "two of five are no majority")
	s.start(3)
	require.True(t, s.until(soon, func() bool { return s.leader() == 3 }))
	s.start(1)
	require.True(t, s.until(soon, func() bool { return s.leader() == 3 }), "who comes later joins the leader that there is")
	s.crash(3)
	require.True(t, s.until(2*soon, func() bool { return s.leader() == 1 }))
}

// TestMessages counts what an election costs: n² messages at the least, as each tells each
// of its vote, and nearly n³/2 if each hears of the better ballots from the worst to the best.
func TestMessages(t *testing.T) {
	for n := 3; n <= 9; n += 2 {
		for _, order := range []string{"worst order", "random order"} {
			s := story(t, five(make([]uint64, n)...))
			if order == "random order" {
				s.delay = func() time.Duration { return time.Duration(s.rng.Int64N(int64(5 * time.Millisecond))) }
			}
			for id := range n {
				s.start(id + 1)
			}
			require.True(t, s.until(soon, func() bool { return s.leader() == n }))
			assert.Less(t, s.sent, n*n*n)
			start := s.sent
			s.crash(n)
			died := s.now
			require.True(t, s.until(soon, func() bool { return s.leader() == n-1 }))
			t.Logf("%d peers, %s: %d messages when all start; %v without a leader when it dies", n, order, start, s.now-died)
		}
	}
}

// TestChaos holds the promises in simulated time, and that there is a leader once it is calm.
func TestChaos(t *testing.T) {
	for seed := range uint64(200) {
		l := five(5, 6, 5, 7, 5)
		if seed%2 == 0 {
			l = five(5, 5, 5)
			l.observers = 1
		}
		s := simulate(l, seed, oneOfARound, mostAdvanced)
		s.chaos(30 * time.Second)
		require.Empty(t, s.broken, "seed %d\n%s", seed, strings.Join(s.history, "\n"))
		require.True(t, s.until(5*time.Minute, func() bool { return s.leader() != 0 }), "seed %d: no leader\n%s", seed, strings.Join(s.history, "\n"))
	}
}
