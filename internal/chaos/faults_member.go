package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/elector-go/elector/internal/services"
)

// cut is a fault of the network between few servers, including the one of the step, and most servers.
type cut struct {
	few, most []services.Server
	met       string
	heal      func() error
}

// cutOff picks the servers to cut off. Usually one candidate depends on one of these and another reaches
// none of them: otherwise all would go to the servers that still answer.
func (c *campaign) cutOff(s step, first services.Server) cut {
	x := cut{few: []services.Server{first}, met: first.Name(), heal: c.heal}
	size := 1 + s.Way/max(1, len(s.Kind.ways))%(len(c.service.Servers)/2)
	for _, other := range c.others(first) {
		if len(x.few) < size {
			x.few = append(x.few, other)
			x.met += ", " + other.Name()
		} else {
			x.most = append(x.most, other)
		}
	}
	if s.random().IntN(4) > 0 {
		met, unpin := c.pin(s, first)
		x.met = met + strings.TrimPrefix(x.met, first.Name())
		readmit := c.keepFrom(s, x.few)
		x.heal = func() error {
			defer unpin()
			defer readmit()
			return c.heal()
		}
		time.Sleep(500 * time.Millisecond) // so that the candidate goes there
	}
	return x
}

// between calls do for each two servers of two sides.
func between(these, those []services.Server, do func(this, that int) error) error {
	for _, this := range these {
		for _, that := range those {
			if err := do(this.Host(), that.Host()); err != nil {
				return err
			}
		}
	}
	return nil
}

func names(servers ...services.Server) string {
	var all []string
	for _, x := range servers {
		all = append(all, x.Name())
	}
	return strings.Join(all, " and ")
}

// heal ends all faults of the network. What was held back arrives late. TCP rarely retries a connection
// that was silent for long, so heal resets such connections at the end.
func (c *campaign) heal() error {
	const late = 10 * time.Second
	w := c.service.network
	if err := w.Heal(); err != nil {
		return err
	}
	if c.service.settle(late) == nil {
		return nil
	}
	return errors.Join(between(c.service.Servers, c.service.Servers, w.Reset), c.service.settle(patience))
}

// beginCutOff drops all packets between a minority and the others. If the others reset their connections,
// they know at once; a server that does not know continues until it misses something.
func beginCutOff(c *campaign, s step) (string, func() error, error) {
	x, w := c.cutOff(s, c.service.pick(s.Leader, s.Way)), c.service.network
	err := between(x.few, x.most, w.Cut)
	if err == nil && s.Kind.way(s) == "the others reset" {
		err = between(x.most, x.few, w.Reset)
	}
	return x.met, x.heal, err
}

// beginOneWay drops all packets from a minority to the others, or to it. The side that hears nothing may
// reset its connections, so that the other side knows.
func beginOneWay(c *campaign, s step) (string, func() error, error) {
	x, w := c.cutOff(s, c.service.pick(s.Leader, s.Way)), c.service.network
	sending, hearing := x.few, x.most
	if strings.HasPrefix(s.Kind.way(s), "deaf") {
		sending, hearing = x.most, x.few
	}
	err := between(sending, hearing, w.Drop)
	if err == nil && strings.HasSuffix(s.Kind.way(s), "reset") {
		err = between(hearing, sending, w.Reset)
	}
	return x.met, x.heal, err
}

// beginFrozen freezes the leader and resumes it. If the leader is also cut off, and the others know, it
// still considers itself the leader for a while.
func beginFrozen(c *campaign, s step) (string, func() error, error) {
	leader := c.service.pick(true, s.Way)
	x := c.cutOff(s, leader)
	err := leader.Pause()
	left := s.Kind.way(s) != "alone"
	if err == nil && left {
		err = c.leave(leader)
	}
	return x.met, func() error {
		if err := leader.Resume(); err != nil {
			return err
		}
		if left {
			time.Sleep(s.For)
		}
		return x.heal()
	}, err
}

// leave cuts one server off without its notice; the others know at once.
func (c *campaign) leave(x services.Server) error {
	these, others := []services.Server{x}, c.others(x)
	return errors.Join(between(these, others, c.service.network.Cut), between(others, these, c.service.network.Reset))
}

// others returns all servers except some.
func (c *campaign) others(but ...services.Server) []services.Server {
	var others []services.Server
	for _, x := range c.service.Servers {
		if !slices.Contains(but, x) {
			others = append(others, x)
		}
	}
	return others
}

// beginSnapshot takes a server away until the others' logs no longer have what it has missed: it comes back
// by a snapshot.
func beginSnapshot(c *campaign, s step) (string, func() error, error) {
	x := c.service.pick(s.Leader, s.Way)
	killed := s.Kind.way(s) == "killed"
	var err error
	if killed {
		err = x.Kill()
	} else {
		err = c.leave(x)
	}
	var await func() error
	if err == nil {
		await, err = c.forget(x)
	}
	return x.Name(), func() error {
		if killed {
			if err := up(x); err != nil {
				return err
			}
		}
		return errors.Join(c.heal(), await())
	}, err
}

// beginBeside resumes an old leader, which was frozen and cut off, beside a server that has learned by a
// snapshot what the others have done since, and has heard nothing else from them.
func beginBeside(c *campaign, s step) (string, func() error, error) {
	old := c.service.pick(true, s.Way)
	behind := c.others(old)[s.Way%3]
	err := errors.Join(old.Pause(), c.leave(old), c.leave(behind))
	var await func() error
	if err == nil {
		await, err = c.forget(behind, old)
	}
	return names(old, behind), func() error {
		// It reaches all except the old leader again.
		err := between([]services.Server{behind}, c.others(old, behind), c.service.network.Mend)
		if err = errors.Join(err, await(), old.Resume()); err != nil {
			return err
		}
		time.Sleep(s.For)
		return c.heal()
	}, err
}

// forget makes the others write until they have forgotten what the server behind has missed, with a leader
// that is neither this server nor another that is away. await waits until the server has got a snapshot.
func (c *campaign) forget(behind services.Server, away ...services.Server) (await func() error, err error) {
	away = append(away, behind)
	before := told(behind, c.service.snapshot)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		leader, err := c.service.Leader()
		if err == nil && !slices.Contains(away, leader) {
			kept := told(leader, c.service.keeps)
			if err = c.service.fill(ctx, leader.Addr()); err == nil {
				kept = told(leader, c.service.keeps) - kept
				return func() error { return c.awaitSnapshot(behind, before, kept > 0) }, nil
			}
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("without %s: %w", names(away...), errors.Join(err, ctx.Err()))
		}
		time.Sleep(25 * time.Millisecond)
	}
}

// awaitSnapshot waits until a server has got a snapshot since, or returns at once if the others have kept
// what it missed.
func (c *campaign) awaitSnapshot(x services.Server, before int, kept bool) error {
	for deadline := time.Now().Add(patience); told(x, c.service.snapshot) == before; time.Sleep(25 * time.Millisecond) {
		if kept {
			c.say("%s comes back without a snapshot: the others have kept their logs", x.Name())
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s did not come back by a snapshot", x.Name())
		}
	}
	return nil
}

// told counts how often a server's log contains a text.
func told(x services.Server, what string) int {
	if what == "" {
		return 0
	}
	return strings.Count(x.LogTail(64<<20), what)
}
