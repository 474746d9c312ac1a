package main

import (
	"time"

	"github.com/elector-go/elector/internal/proxytest"
)

func beginKill(c *campaign, s step) (string, func() error, error) {
	x, release := c.take(s)
	met := x.describe()
	if err := x.child.kill(); err != nil {
		return "", nil, err
	}
	return met, func() error {
		defer release()
		return x.start()
	}, nil
}

func beginStop(c *campaign, s step) (string, func() error, error) {
	x, release := c.take(s)
	met := x.describe()
	if err := x.child.pause(); err != nil {
		return "", nil, err
	}
	return met, func() error {
		defer release()
		return x.child.resume()
	}, nil
}

// onLinks is a fault of a candidate's links, which cannot fail.
func onLinks(c *campaign, s step, begin, undo func(*proxytest.Proxy)) (string, func() error, error) {
	x, release := c.take(s)
	met := x.describe()
	x.each(begin)
	return met, func() error {
		defer release()
		x.each(undo)
		return nil
	}, nil
}

// beginCut resets all connections: once, or until the end of the fault.
func beginCut(c *campaign, s step) (string, func() error, error) {
	return onLinks(c, s, func(p *proxytest.Proxy) {
		p.Refuse(s.Kind.way(s) == "and refused")
		p.Cut()
	}, func(p *proxytest.Proxy) { p.Refuse(false) })
}

// beginHalfOpen has nothing arrive, in either direction, without a word to anybody. In
// the end it all arrives late, or never.
func beginHalfOpen(c *campaign, s step) (string, func() error, error) {
	return onLinks(c, s, (*proxytest.Proxy).Stall, func(p *proxytest.Proxy) {
		if s.Kind.way(s) == "then cut" {
			p.Cut()
		}
		p.Unstall()
	})
}

func beginSlow(c *campaign, s step) (string, func() error, error) {
	random := s.random()
	delay := 20*time.Millisecond + time.Duration(random.Int64N(int64(100*time.Millisecond)))
	jitter := time.Duration(random.Int64N(int64(100 * time.Millisecond)))
	return onLinks(c, s, func(p *proxytest.Proxy) { p.Delay(delay, jitter) },
		func(p *proxytest.Proxy) { p.Delay(0, 0) })
}

// beginReplyLost has what the servers answer held back, and then lost with the
// connections: they have done what was asked, and nobody was told.
func beginReplyLost(c *campaign, s step) (string, func() error, error) {
	return onLinks(c, s, (*proxytest.Proxy).StallToClient, func(p *proxytest.Proxy) {
		p.Cut()
		p.Unstall()
	})
}
