package main

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
)

// search goes through all that can become of an election, the shortest schedules first.
//
// The network is the set of all messages ever sent. Each may arrive at any time, once or
// more often, or never: so a message that is late, lost, doubled or overtaken, and a
// partition, are the same here, that it has not arrived yet. A timeout may come at any
// time. A peer may die and start again; what is sent to it and from it stays on the way.
// What bounds the search is how many timeouts and restarts there are.
type search struct {
	layout
	rounds             uint64 // no peer goes beyond this round
	timeouts, restarts int
	most               int // so many states, or steps at random, and then it gives up
	rule               rule
}

// found is what came of a search.
type found struct {
	States   int
	All      bool // there are no others
	Broken   string
	schedule []choice
}

// choice is a step of a schedule.
type choice struct {
	kind byte // 's'tart, 'm'essage, 't'imeout, 'r'estart
	id   int
	vote vote
}

func (c choice) String() string {
	switch v := c.vote; {
	case c.kind == 's':
		return fmt.Sprintf("%d starts", c.id)
	case c.kind == 't':
		return fmt.Sprintf("%d has waited", c.id)
	case c.kind == 'r':
		return fmt.Sprintf("%d DIES, and starts again", c.id)
	case v.For.ID == 0:
		return fmt.Sprintf("%d hears %d: %v, round %d, no vote", c.id, v.Self.ID, v.State, v.Round)
	default:
		return fmt.Sprintf("%d hears %d: %v, round %d, for %d", c.id, v.Self.ID, v.State, v.Round, v.For.ID)
	}
}

// sent is a set of messages, by the number that the search has given them.
type sent [8]uint64

// spot is a world that a search has come to.
type spot struct {
	world
	sent               sent
	timeouts, restarts int
	last               *link
}

// link is how a spot was reached; the spots on the way are not kept.
type link struct {
	choice
	before *link
}

func (l *link) schedule() (all []choice) {
	for ; l != nil; l = l.before {
		all = append(all, l.choice)
	}
	slices.Reverse(all)
	return all
}

// all goes through all schedules. It fails if a search has more different messages than it can number.
func (s search) all() (found, error) {
	var (
		seed   = maphash.MakeSeed()
		seen   = make(map[uint64]bool)
		number = make(map[message]int)
		list   []message
	)
	// do makes a choice in a world, and tells what comes of it.
	do := func(n *spot, c choice) (*spot, bool, error) {
		next := &spot{n.world, n.sent, n.timeouts, n.restarts, &link{c, n.last}}
		next.peers = slices.Clone(n.peers)
		e := next.make(c)
		switch c.kind {
		case 't':
			next.timeouts--
		case 'r':
			next.restarts--
		}
		if c.kind != 's' && next.peers[c.id-1].greeting().Round > s.rounds {
			return nil, false, nil
		}
		for _, m := range next.says(c, e) {
			at, ok := number[m]
			if !ok {
				if at = len(list); at >= 64*len(next.sent) {
					return nil, false, fmt.Errorf("more than %d different messages: allow fewer timeouts", at)
				}
				number[m], list = at, append(list, m)
			}
			next.sent[at/64] |= 1 << (at % 64)
		}
		key := next.key(seed)
		fresh := !seen[key]
		seen[key] = true
		return next, fresh, nil
	}

	first := &spot{world: world{layout: s.layout, peers: make([]machine, len(s.ids()))}, timeouts: s.timeouts, restarts: s.restarts}
	for _, id := range s.ids() {
		var err error
		if first, _, err = do(first, choice{kind: 's', id: id}); err != nil {
			return found{}, err
		}
	}
	for level := []*spot{first}; len(level) > 0; {
		var nextLevel []*spot
		for at, n := range level {
			level[at] = nil // its world is needed no more
			for _, c := range n.choices(list) {
				next, fresh, err := do(n, c)
				if err != nil {
					return found{}, err
				}
				if !fresh { // or a round too many
					continue
				}
				if broken := s.rule(&next.world); broken != "" {
					return found{States: len(seen), Broken: broken, schedule: next.last.schedule()}, nil
				}
				if len(seen) >= s.most {
					return found{States: len(seen)}, nil
				}
				nextLevel = append(nextLevel, next)
			}
		}
		level = nextLevel
	}
	return found{States: len(seen), All: true}, nil
}

// random makes choices at random, for what is too deep for all, and then leaves out of the
// schedule what it breaks the rule without.
func (s search) random(seed uint64) found {
	const most = 60
	rng := rand.New(rand.NewPCG(seed, 0))
	for steps := 0; steps < s.most; steps += most {
		r := s.anew()
		for _, id := range s.ids() {
			r.take(choice{kind: 's', id: id})
		}
		for timeouts, restarts := s.timeouts, s.restarts; len(r.schedule) < most && r.broken == ""; {
			c := choice{id: 1 + rng.IntN(len(r.peers))}
			switch n := rng.IntN(20); {
			case n == 0 && restarts > 0:
				c.kind = 'r'
				restarts--
			case n < 5 && timeouts > 0:
				c.kind = 't'
				timeouts--
			default:
				m := r.list[rng.IntN(len(r.list))]
				c = choice{'m', m.To, m.Vote}
			}
			r.take(c)
		}
		if r.broken == "" {
			continue
		}
		for at := len(r.schedule) - 1; at >= 0; at-- {
			without := s.anew()
			for _, c := range slices.Delete(slices.Clone(r.schedule), at, at+1) {
				without.take(c)
			}
			if without.broken != "" {
				r = without
				at = len(r.schedule)
			}
		}
		return found{States: steps, Broken: r.broken, schedule: r.schedule}
	}
	return found{States: s.most}
}

// walk is one schedule on its way.
type walk struct {
	world
	rule     rule
	sent     map[message]bool
	list     []message
	schedule []choice
	broken   string
}

func (s search) anew() *walk {
	return &walk{world: world{layout: s.layout, peers: make([]machine, len(s.ids()))}, rule: s.rule, sent: make(map[message]bool)}
}

// take makes a choice, unless there is no such choice, or the rule is broken already.
func (r *walk) take(c choice) {
	if r.broken != "" || c.kind != 's' && r.peers[c.id-1] == nil || c.kind == 'm' && !r.sent[message{c.id, c.vote}] {
		return
	}
	for _, m := range r.says(c, r.make(c)) {
		if !r.sent[m] {
			r.sent[m], r.list = true, append(r.list, m)
		}
	}
	r.schedule = append(r.schedule, c)
	r.broken = r.rule(&r.world)
}

// says is what is on its way from a peer after a step: what it has sent, and what it would
// say if it were asked. Somebody may have asked long ago.
func (w *world) says(c choice, e effects) []message {
	for _, id := range w.ids() {
		if id != c.id {
			e.send = append(e.send, message{id, w.peers[c.id-1].greeting()})
		}
	}
	return e.send
}

// choices are all that can happen next.
func (n *spot) choices(list []message) (all []choice) {
	for at, m := range list {
		if n.sent[at/64]&(1<<(at%64)) != 0 {
			all = append(all, choice{'m', m.To, m.Vote})
		}
	}
	for _, id := range n.ids() {
		if n.timeouts > 0 {
			all = append(all, choice{kind: 't', id: id})
		}
		if n.restarts > 0 {
			all = append(all, choice{kind: 'r', id: id})
		}
	}
	return all
}

// make makes a choice. The peer whose step it is is another one after it: worlds share peers.
func (w *world) make(c choice) effects {
	switch p := w.peers[c.id-1]; c.kind {
	case 's':
		return w.begin(c.id, 0)
	case 'r':
		return w.begin(c.id, p.durable())
	default:
		w.peers[c.id-1] = p.clone()
		return w.step(c.id, func(m machine) effects {
			if c.kind == 't' {
				return m.timeout()
			}
			return m.receive(c.vote)
		})
	}
}

// key is a hash of all that makes a difference to what comes next.
func (n *spot) key(seed maphash.Seed) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, p := range n.peers {
		if p != nil {
			p.hash(&h)
		}
		_ = h.WriteByte('|')
	}
	for _, t := range n.terms {
		maphash.WriteComparable(&h, t)
	}
	maphash.WriteComparable(&h, n.sent)
	maphash.WriteComparable(&h, [2]int{n.timeouts, n.restarts})
	return h.Sum64()
}

// replay makes the choices of a schedule again, and returns what was done and said.
func (s search) replay(schedule []choice) (lines []string) {
	s.say = func(id int, line string) { lines = append(lines, fmt.Sprintf("        %d %s", id, line)) }
	w := world{layout: s.layout, peers: make([]machine, len(s.ids()))}
	for _, c := range schedule {
		lines = append(lines, c.String())
		w.make(c)
	}
	return lines
}
