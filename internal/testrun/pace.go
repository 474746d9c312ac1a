package main

import "time"

// A pace tells from the stages that have run how fast the machine is, and so whether another
// one would end in time.
type pace struct {
	budget time.Duration // what is left of it
	spent  time.Duration // on stages
	usual  time.Duration // what those take on a quiet machine
}

// took notes that a stage has run.
func (p *pace) took(s stage, d time.Duration) {
	p.budget -= d
	p.spent += d
	p.usual += s.usual
}

// allows tells whether a stage may run: it belongs to the first tier, or would end within what is
// left of the budget. A machine is not taken for faster than the usual one.
func (p *pace) allows(s stage) bool {
	would := s.usual
	if p.spent > p.usual && p.usual > 0 {
		would = time.Duration(float64(s.usual) * float64(p.spent) / float64(p.usual))
	}
	return s.tier == testTier || would <= p.budget
}
