package main

import (
	"fmt"
	"math/bits"
	"slices"
)

// world is the peers of one election, and what they have settled on so far. It is the
// same for the simulator and for the search; they differ in who comes next.
type world struct {
	layout
	peers []machine // by place in ids; nil if it is down
	terms []term    // sorted, and copied when it changes
}

// layout is what does not change.
type layout struct {
	new       func(*config) machine
	zxids     []uint64 // of the voters, whose ids are 1, 2, 3 ...
	observers int      // their ids come next
	timing
	rules
	forgets bool // a peer that starts again has lost its round
	say     func(id int, line string)
}

// term is who has ever settled on a leader in a round. Zen has no rounds: what stands
// under round 0 is forgotten when the leader leads no more.
type term struct {
	round  uint64
	leader int
	by     set
}

func (l layout) ids() (ids []int) {
	for i := range len(l.zxids) + l.observers {
		ids = append(ids, i+1)
	}
	return ids
}

func (l layout) config(id int, durable uint64) *config {
	ids, n := l.ids(), len(l.zxids)
	c := &config{id: id, voters: ids[:n], observers: ids[n:], durable: durable, timing: l.timing, rules: l.rules}
	if id <= n {
		c.zxid = l.zxids[id-1]
	}
	if l.say != nil {
		c.say = func(format string, args ...any) { l.say(id, fmt.Sprintf(format, args...)) }
	}
	return c
}

// begin starts a peer, for the first time or again. What was durable is from its last life.
func (w *world) begin(id int, durable uint64) effects {
	if w.forgets {
		durable = 0
	}
	w.end(id)
	w.peers[id-1] = w.new(w.config(id, durable))
	return w.step(id, machine.start)
}

// end has a peer die.
func (w *world) end(id int) {
	w.leadsNoMore(id)
	w.peers[id-1] = nil
}

// step has a peer do something, and notes what it has settled on by that.
func (w *world) step(id int, do func(machine) effects) effects {
	was := w.peers[id-1].status()
	e := do(w.peers[id-1])
	is := w.peers[id-1].status()
	if is.Leader == was.Leader && is.Round == was.Round {
		return e
	}
	if was.State == leading {
		w.leadsNoMore(id)
	}
	if is.State == following || is.State == leading {
		at := slices.IndexFunc(w.terms, func(t term) bool { return t.round == is.Round && t.leader == is.Leader })
		if w.terms = slices.Clone(w.terms); at < 0 {
			at = len(w.terms)
			w.terms = append(w.terms, term{round: is.Round, leader: is.Leader})
		}
		w.terms[at].by |= 1 << (id - 1)
		slices.SortFunc(w.terms, func(a, b term) int { return 64*int(int64(a.round-b.round)) + a.leader - b.leader })
	}
	return e
}

func (w *world) leadsNoMore(id int) {
	w.terms = slices.DeleteFunc(slices.Clone(w.terms), func(t term) bool { return t.round == 0 && t.leader == id })
}

// made tells whether a majority, the leader included, has settled on the leader.
func (w *world) made(t term) bool {
	return majority(bits.OnesCount64(uint64(t.by)), len(w.zxids)) && t.by&(1<<(t.leader-1)) != 0
}

// leads tells whether a peer leads now, and in which round.
func (w *world) leads(id int) (round uint64, ok bool) {
	if w.peers[id-1] == nil {
		return 0, false
	}
	s := w.peers[id-1].status()
	return s.Round, s.State == leading
}

// A rule says what is wrong in a world; "" if nothing is. The first two are what an
// election promises, or should. The last two are what it does not promise.
type rule func(*world) string

// oneOfARound holds that no two peers are made leaders by majorities of one round. With
// Zen, which has none: not two at the same time.
func oneOfARound(w *world) string {
	for i, a := range w.terms {
		for _, b := range w.terms[i+1:] {
			if a.round == b.round && w.made(a) && w.made(b) {
				return fmt.Sprintf("%d and %d are both made leaders in round %d, by %v and by %v",
					a.leader, b.leader, a.round, w.members(a), w.members(b))
			}
		}
	}
	return ""
}

// mostAdvanced holds that the log of who is made leader goes as far as those of a majority.
// What a majority has stored is in it, then. (One with a longer log may be late, and joins.)
func mostAdvanced(w *world) string {
	for _, t := range w.terms {
		zxid, less := w.zxids[t.leader-1], 0
		for _, other := range w.zxids {
			if other <= zxid {
				less++
			}
		}
		if w.made(t) && !majority(less, len(w.zxids)) {
			return fmt.Sprintf("%d is made leader with zxid %d, by %v; there are zxids %v", t.leader, zxid, w.members(t), w.zxids)
		}
	}
	return ""
}

// oneElected would hold that two peers do not lead at the same time in one round, on the
// votes that they have received.
func oneElected(w *world) string {
	return w.pair(func(a, b uint64, _ bool) bool { return a == b })
}

// oneAtATime would hold that two peers with majorities do not lead at the same time.
func oneAtATime(w *world) string {
	return w.pair(func(_, _ uint64, made bool) bool { return made })
}

func (w *world) pair(wrong func(a, b uint64, made bool) bool) string {
	made := func(id int, round uint64) bool {
		return slices.ContainsFunc(w.terms, func(t term) bool { return t.leader == id && t.round == round && w.made(t) })
	}
	for a := 1; a <= len(w.zxids); a++ {
		for b := a + 1; b <= len(w.zxids); b++ {
			ra, aLeads := w.leads(a)
			rb, bLeads := w.leads(b)
			if aLeads && bLeads && wrong(ra, rb, made(a, ra) && made(b, rb)) {
				return fmt.Sprintf("%d leads in round %d, and %d leads in round %d", a, ra, b, rb)
			}
		}
	}
	return ""
}

func (w *world) members(t term) (ids []int) {
	for id := range w.zxids {
		if t.by&(1<<id) != 0 {
			ids = append(ids, id+1)
		}
	}
	return ids
}
