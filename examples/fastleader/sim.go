package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// simulation runs an election in simulated time. The same seed gives the same run.
type simulation struct {
	world
	rng     *rand.Rand
	now     time.Duration
	events  []event // by time
	delay   func() time.Duration
	loss    float64 // of 1; of as many a copy comes later
	cuts    map[[2]int]bool
	saved   []uint64 // by peer: its disk
	armed   []int    // by peer: the timeout that counts
	rules   []rule
	broken  string // what the first rule said that was broken
	sent    int
	history []string
}

type event struct {
	at time.Duration
	do func()
}

func simulate(l layout, seed uint64, rules ...rule) *simulation {
	s := &simulation{rng: rand.New(rand.NewPCG(seed, 0)), cuts: make(map[[2]int]bool), rules: rules}
	l.say = func(id int, line string) {
		s.history = append(s.history, fmt.Sprintf("%8.3fs  %d  %s", s.now.Seconds(), id, line))
	}
	n := len(l.ids())
	s.world = world{layout: l, peers: make([]machine, n)}
	s.saved, s.armed = make([]uint64, n), make([]int, n)
	s.delay = func() time.Duration { return 5 * time.Millisecond }
	return s
}

func (s *simulation) after(d time.Duration, do func()) {
	e := event{s.now + d, do}
	at, _ := slices.BinarySearchFunc(s.events, e, func(a, b event) int {
		if a.at <= b.at {
			return -1 // what was there first comes first
		}
		return 1
	})
	s.events = slices.Insert(s.events, at, e)
}

// run lets time pass.
func (s *simulation) run(d time.Duration) {
	for end := s.now + d; ; {
		if len(s.events) == 0 || s.events[0].at > end || s.broken != "" {
			s.now = end
			return
		}
		e := s.events[0]
		s.events = s.events[1:]
		s.now = e.at
		e.do()
	}
}

// until lets time pass, to a limit, for as long as something is not so.
func (s *simulation) until(limit time.Duration, done func() bool) bool {
	for end := s.now + limit; !done(); {
		if s.now >= end || s.broken != "" {
			return false
		}
		s.run(10 * time.Millisecond)
	}
	return true
}

func (s *simulation) say(id int, line string) { s.layout.say(id, line) }

// start starts a peer, for the first time or again, with what is on its disk.
func (s *simulation) start(id int) {
	s.carryOut(id, s.begin(id, s.saved[id-1]))
}

func (s *simulation) crash(id int) {
	s.say(id, "DIES")
	s.end(id)
}

// cut keeps a and b from hearing each other, or does so no more.
func (s *simulation) cut(a, b int, is bool) { s.cuts[[2]int{a, b}], s.cuts[[2]int{b, a}] = is, is }

func (s *simulation) heal() { clear(s.cuts) }

// carryOut does what a machine wants to be done.
func (s *simulation) carryOut(id int, e effects) {
	p := s.peers[id-1]
	s.saved[id-1] = p.durable()
	for _, m := range e.send {
		s.post(id, m)
		if s.rng.Float64() < s.loss {
			s.post(id, m)
		}
	}
	if e.wait > 0 {
		s.armed[id-1]++
		n := s.armed[id-1]
		s.after(e.wait, func() {
			if n == s.armed[id-1] && s.peers[id-1] == p {
				s.carryOut(id, s.step(id, machine.timeout))
			}
		})
	}
	for _, rule := range s.rules {
		if s.broken == "" {
			s.broken = rule(&s.world)
		}
	}
}

func (s *simulation) post(from int, m message) {
	s.sent++
	if s.rng.Float64() < s.loss {
		return
	}
	s.after(s.delay(), func() {
		if s.peers[m.To-1] != nil && !s.cuts[[2]int{from, m.To}] {
			s.carryOut(m.To, s.step(m.To, func(p machine) effects { return p.receive(m.Vote) }))
		}
	})
}

// chaos lets a peer die, start again, be cut off or not from another, at random, for a while.
// The messages are late, by more than the 200 ms now and then, and some are lost.
func (s *simulation) chaos(d time.Duration) {
	calm := s.delay
	s.loss = 0.05
	s.delay = func() time.Duration {
		if s.rng.IntN(20) == 0 {
			return time.Duration(s.rng.Int64N(int64(2 * time.Second)))
		}
		return time.Duration(s.rng.Int64N(int64(60 * time.Millisecond)))
	}
	for end := s.now + d; s.now < end && s.broken == ""; s.run(time.Duration(s.rng.Int64N(int64(time.Second)))) {
		id := 1 + s.rng.IntN(len(s.peers))
		switch at := s.peers[id-1]; {
		case s.rng.IntN(3) > 0:
			other := 1 + s.rng.IntN(len(s.peers))
			s.cut(id, other, !s.cuts[[2]int{id, other}])
		case at == nil:
			s.start(id)
		default:
			s.crash(id)
		}
	}
	s.loss, s.delay = 0, calm
	s.heal()
	for _, id := range s.ids() {
		if s.peers[id-1] == nil {
			s.start(id)
		}
	}
}

// leader returns whom all peers that are up have settled on; 0 if they have not.
func (s *simulation) leader() (leader int) {
	for id, p := range s.peers {
		if p == nil {
			continue
		}
		st := p.status()
		if st.Leader == 0 || leader != 0 && st.Leader != leader || st.Leader == id+1 && !st.Backed {
			return 0
		}
		leader = st.Leader
	}
	if leader == 0 || s.peers[leader-1] == nil {
		return 0
	}
	return leader
}

// is tells what a peer is at.
func (s *simulation) is(id int) status { return s.peers[id-1].status() }
