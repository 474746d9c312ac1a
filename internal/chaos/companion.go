package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/dial"
	"github.com/elector-go/elector/lastwill"
)

// wills reports whether something ends the sessions of candidates that die.
func (t trial) wills() bool { return slices.Contains(t.groups(), ofCompanions) }

// groups returns the groups of faults. An elector run has a companion of its own, which is not known here.
func (t trial) groups() []string {
	return slices.DeleteFunc(slices.Clone(t.faults), func(group string) bool { return t.elector != "" && group == ofCompanions })
}

// openBackend opens the candidate's backend.
func openBackend(ctx context.Context, o candidateOptions) (closer, error) {
	if !o.Wills {
		return dial.Open(ctx, o.URL, dial.WithLogger(nobodyReads))
	}
	b, err := lastwill.Start(func() (backend.Backend, error) { return dial.Open(ctx, o.URL, dial.WithLogger(nobodyReads)) }, lastwill.Options{
		Agent: o.Agent, // what companions do is read from standard error
		OnEvent: func(e lastwill.Event) {
			switch e.Kind {
			case lastwill.Ready:
				fmt.Println(saysEnds, e.PID)
			case lastwill.Lost:
				fmt.Println(saysEnds, 0)
			default: // not requested
				fmt.Println(saysFailed, e.Kind, e.Err)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	return watched(b, o), nil
}

// beAgent is the agent's process.
func beAgent(ctx context.Context, o candidateOptions) error {
	b, err := dial.Open(ctx, o.URL)
	if err != nil {
		return err
	}
	defer b.Close()
	if err := os.Remove(o.Agent); err != nil && !errors.Is(err, os.ErrNotExist) { // the socket of an agent that was killed
		return err
	}
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: o.Agent, Net: "unixpacket"})
	if err != nil {
		return err
	}
	return lastwill.Serve(ctx, l, lastwill.ServeOptions{Backends: []backend.Backend{b}})
}

// A loss is a session that ended although its process trusted it and had not closed it.
type loss struct {
	name    string // of the process
	session string
	left    time.Duration // how long it would still have been trusted
}

// watched makes this process report such a loss. A session that times out, or is frozen for too long, is no
// longer trusted by then.
func watched(b closer, o candidateOptions) closer {
	return struct {
		backend.Backend
		io.Closer
	}{backend.Around(b, func(s *backend.Session) backend.Layer {
		var closing atomic.Bool
		go func() {
			var err error
			for state := s.State(); state != backend.Lost && err == nil; {
				state, err = s.AwaitState(context.Background(), state)
			}
			if left := time.Until(s.Deadline()); left > 0 && !closing.Load() {
				fmt.Println(saysLost, left, s.ID())
			}
		}()
		if will, err := s.Will(); err == nil && o.Broken == brokenHasty {
			time.AfterFunc(time.Second, func() { _ = backend.Execute(context.Background(), b, will) }) // its error does not matter: the effect shows, or not
		}
		return backend.Layer{Call: func(ctx context.Context, call *backend.Call, next func(context.Context) error) error {
			if call.Kind == backend.CallClose {
				closing.Store(true)
			}
			return next(ctx)
		}}
	}), b}
}

// setCompanion is called with the lock held. The os.Process that it finds always means that process, never
// another one with the same number.
func (c *child) setCompanion(text string) {
	c.companion = nil
	if pid, _ := strconv.Atoi(text); pid != 0 {
		c.companion, _ = os.FindProcess(pid) // it may have ended
	}
}

// An agent ends the sessions of candidates that have no companion.
type agent struct {
	campaign *campaign
	socket   string
	child    *child // its latest process
	started  int
	busy     sync.Mutex // held by a fault that uses the agent
}

// start starts the agent's next process.
func (a *agent) start() error {
	c := a.campaign
	a.started++
	return c.launch(&a.child, candidateOptions{
		Name: fmt.Sprintf("agent.%d", a.started), URL: c.service.url(c.service.Addr()), Agent: a.socket, Serves: true,
	})
}

// agent returns the agent's socket for every second candidate, and "" for the others.
func (s *slot) agent() string {
	if n, _ := strconv.Atoi(s.id); s.campaign.agent == nil || n%2 > 0 {
		return ""
	}
	return s.campaign.agent.socket
}
