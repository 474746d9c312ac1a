package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/services"
)

// end takes a server down in the way of the step.
func end(x services.Server, s step) error {
	if s.Kind.way(s) == "killed" {
		return x.Kill()
	}
	return x.Stop()
}

func beginRestart(c *campaign, s step) (string, func() error, error) {
	x := c.service.pick(s.Leader, s.Way)
	return x.Name(), func() error { return up(x) }, end(x, s)
}

// beginLeave makes a server leave the others in good order, and come back.
func beginLeave(c *campaign, s step) (string, func() error, error) {
	x := c.service.pick(s.Leader, s.Way)
	err := c.service.leave(x.Addr())
	return x.Name(), func() error { return up(x) }, errors.Join(err, x.Stop())
}

// beginRolling restarts one server after the other, as for an upgrade: the next one when the last one
// serves. All of it happens in undo.
func beginRolling(c *campaign, s step) (string, func() error, error) {
	return "each server", func() error {
		for _, x := range c.service.Servers {
			if err := errors.Join(end(x, s), up(x)); err != nil {
				return err
			}
			time.Sleep(s.For)
		}
		return nil
	}, nil
}

// beginQuorum takes all servers away except a minority.
func beginQuorum(c *campaign, s step) (string, func() error, error) {
	first := c.service.pick(s.Leader, s.Way)
	down := []services.Server{first}
	for _, x := range c.service.Servers {
		if x != first && len(down) < len(c.service.Servers)/2+1 {
			down = append(down, x)
		}
	}
	begin, undo := services.Server.Kill, services.Server.Launch
	if s.Kind.way(s) == "frozen" {
		begin, undo = services.Server.Pause, services.Server.Resume
	}
	var err error
	var met []string
	for _, x := range down {
		err = errors.Join(err, begin(x))
		met = append(met, x.Name())
	}
	return strings.Join(met, " and "), func() error {
		var err error
		for _, x := range down {
			err = errors.Join(err, undo(x))
		}
		for _, x := range down {
			if err == nil {
				err = x.WaitReady(patience)
			}
		}
		return err
	}, err
}

// beginLagging stops a follower for a moment again and again, so that it lags behind the others, and lets
// one candidate reach no other server.
func beginLagging(c *campaign, s step) (string, func() error, error) {
	follower := c.service.pick(false, s.Way)
	pinned, unpin := c.pin(s, follower)
	stop := make(chan struct{})
	var lagging sync.WaitGroup
	var err error
	random := s.random()
	lagging.Go(func() {
		for err == nil {
			err = follower.Pause()
			time.Sleep(100*time.Millisecond + time.Duration(random.Int64N(int64(300*time.Millisecond))))
			err = errors.Join(err, follower.Resume())
			select {
			case <-stop:
				return
			case <-time.After(20*time.Millisecond + time.Duration(random.Int64N(int64(80*time.Millisecond)))):
			}
		}
	})
	return pinned, func() error {
		close(stop)
		lagging.Wait()
		unpin()
		if err != nil {
			return err
		}
		return follower.WaitReady(patience)
	}, nil
}

// pin lets one candidate reach only this server, if candidates connect to it.
func (c *campaign) pin(s step, to services.Server) (met string, unpin func()) {
	if !slices.Contains(c.service.Access, to) {
		return to.Name(), func() {}
	}
	x, unpin := c.refuse(s, func(at services.Server) bool { return at != to })
	return to.Name() + ", on which " + x.describe() + " depends", unpin
}

// keepFrom keeps one candidate from some servers, if candidates connect to them.
func (c *campaign) keepFrom(s step, servers []services.Server) (readmit func()) {
	s.Leader = false
	_, readmit = c.refuse(s, func(at services.Server) bool { return slices.Contains(servers, at) })
	return readmit
}

// refuse keeps one candidate from the servers for which meant returns true.
func (c *campaign) refuse(s step, meant func(services.Server) bool) (x *slot, readmit func()) {
	x, release := c.take(s)
	for i, at := range c.service.Access {
		if meant(at) {
			x.proxies[i].Refuse(true)
			x.proxies[i].Cut()
		}
	}
	return x, func() {
		defer release()
		x.each(func(p *proxytest.Proxy) { p.Refuse(false) })
	}
}

// beginWipe makes a server lose its disk. It comes back empty when the others have a leader: a server that
// has forgotten its promises must not vote on the leader.
func beginWipe(c *campaign, s step) (string, func() error, error) {
	x := c.service.pick(s.Leader, s.Way)
	return x.Name(), func() error {
		for deadline := time.Now().Add(patience); ; {
			leader, err := c.service.Leader()
			if err == nil && leader != x {
				return up(x)
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("%s was wiped, and the others have no leader after %v: %w", x.Name(), patience, err)
			}
			time.Sleep(25 * time.Millisecond)
		}
	}, x.Wipe()
}
