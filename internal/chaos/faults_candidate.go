package main

import (
	"time"

	"github.com/elector-go/elector/internal/proxytest"
)

// onCandidate is a fault of one candidate, which begin starts and undo ends.
func onCandidate(begin func(x *slot, s step) (undo func() error, err error)) beginner {
	return func(c *campaign, s step) (string, func() error, error) {
		x, release := c.take(s)
		met := x.describe()
		undo, err := begin(x, s)
		return met, func() error {
			defer release()
			return undo()
		}, err
	}
}

func beginKill(x *slot, _ step) (undo func() error, err error) { return x.start, x.child.kill() }

func beginStop(x *slot, _ step) (undo func() error, err error) {
	return x.child.resume, x.child.pause()
}

// beginClock steps a candidate's wall clock, and back at the end.
func beginClock(x *slot, s step) (undo func() error, err error) {
	by := stepBy
	if s.Kind.way(s) == "back" {
		by = -by
	}
	return func() error { return x.child.stepClock(-by) }, x.child.stepClock(by)
}

// onLinks is a fault of a candidate's links, which cannot fail. It calls one function for each link as it
// begins, and another as it ends.
func onLinks(of func(s step) (begin, undo func(*proxytest.Proxy))) beginner {
	return onCandidate(func(x *slot, s step) (func() error, error) {
		begin, undo := of(s)
		x.each(begin)
		return func() error { x.each(undo); return nil }, nil
	})
}

// cutLinks resets all connections: once, or until the end of the fault.
func cutLinks(s step) (begin, undo func(*proxytest.Proxy)) {
	return func(p *proxytest.Proxy) {
		p.Refuse(s.Kind.way(s) == "and refused")
		p.Cut()
	}, func(p *proxytest.Proxy) { p.Refuse(false) }
}

// halfOpen lets nothing arrive, in either direction, without notice. At the end it all arrives late, or
// never.
func halfOpen(s step) (begin, undo func(*proxytest.Proxy)) {
	return (*proxytest.Proxy).Stall, func(p *proxytest.Proxy) {
		if s.Kind.way(s) == "then cut" {
			p.Cut()
		}
		p.Unstall()
	}
}

func slowLinks(s step) (begin, undo func(*proxytest.Proxy)) {
	random := s.random()
	delay := 20*time.Millisecond + time.Duration(random.Int64N(int64(100*time.Millisecond)))
	jitter := time.Duration(random.Int64N(int64(100 * time.Millisecond)))
	return func(p *proxytest.Proxy) { p.Delay(delay, jitter) }, func(p *proxytest.Proxy) { p.Delay(0, 0) }
}

// loseReplies holds the servers' replies back and then loses them with the connections: the servers have
// done the requests, but nobody knows.
func loseReplies(step) (begin, undo func(*proxytest.Proxy)) {
	return (*proxytest.Proxy).StallToClient, func(p *proxytest.Proxy) {
		p.Cut()
		p.Unstall()
	}
}
