package lastwill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector/backend"
)

const (
	atOnce = 32              // sessions of a service that are ended concurrently
	grace  = 5 * time.Second // for the sessions that an agent is ending when it must end itself
)

// server ends the sessions of dead processes.
type server struct {
	log      *slog.Logger
	services map[string]backend.Backend // of an agent
	open     Opener                     // of a companion, which opens its service when needed

	rehearsal sync.Once

	opening sync.Mutex // held while the service is opened
	opened  backend.Backend

	mu      sync.Mutex
	clients map[identity]*client
	turns   map[string]chan struct{} // by service: a service that does not answer blocks no other
}

var errNone = errors.New("this is no companion of that service")

// identity identifies a process as long as it lives, across connections.
type identity struct {
	pid    int
	secret string
}

// client is a living process.
type client struct {
	id    identity
	conn  *net.UnixConn
	pidfd *os.File
	gate  *os.File
	wills map[string]backend.Will // owned by listen, and then by bury
}

func newServer(services map[string]backend.Backend, open Opener, log *slog.Logger) *server {
	return &server{log: log, services: services, open: open, clients: make(map[identity]*client), turns: make(map[string]chan struct{})}
}

// attend serves one connection. It returns once the process is dead and its sessions are ended, or it has
// left. The connection's end alone means nothing.
func (s *server) attend(ctx context.Context, conn *net.UnixConn) {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	c, err := s.greet(conn)
	stop()
	if errors.Is(err, io.EOF) {
		return // it died before it sent anything
	}
	if err != nil {
		s.log.Warn("refused a process", "err", err)
		_ = write(conn, message{Kind: kindRefused, Why: err.Error()}) // it may have gone
		return
	}
	defer closeAll([]*os.File{c.pidfd, c.gate})
	defer s.forget(c)
	defer context.AfterFunc(ctx, c.leave)()
	reading := make(chan error, 1)
	go func() { reading <- s.listen(c) }()
	err = awaitDeath(c.pidfd)
	_ = conn.SetReadDeadline(past) // what has arrived is read below
	unread := errors.Is(<-reading, os.ErrDeadlineExceeded)
	if err != nil {
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			s.log.Error("cannot tell whether a process lives", "pid", c.id.pid, "err", err)
		}
		return // nobody is dead
	}
	died := time.Now()
	for unread {
		m, files, err := rest(conn)
		closeAll(files)
		unread = err == nil && s.hear(c, m)
	}
	s.bury(c, died)
}

// greet waits for a hello, and verifies which process sent it.
func (s *server) greet(conn *net.UnixConn) (c *client, err error) {
	if err := conn.SetReadDeadline(time.Now().Add(greeting)); err != nil {
		return nil, err
	}
	m, files, err := read(conn)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			closeAll(files)
		}
	}()
	if m.Kind != kindHello || len(files) != 2 {
		return nil, fmt.Errorf("a hello with two descriptors comes first; it was %q with %d: "+
			"a process connects by itself, and not through another", m.Kind, len(files))
	}
	pid, err := identify(conn, files[0])
	if err != nil {
		return nil, err
	}
	if !sealed(files[1]) {
		return nil, errors.New("the second descriptor is no sealed file in memory")
	}
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		return nil, err
	}
	if err := write(conn, message{Kind: kindWelcome}); err != nil {
		return nil, err
	}
	c = &client{id: identity{pid, m.Client}, conn: conn, pidfd: files[0], gate: files[1], wills: make(map[string]backend.Will)}
	s.mu.Lock()
	old := s.clients[c.id]
	s.clients[c.id] = c
	s.mu.Unlock()
	if old != nil {
		old.leave() // the process sends everything again
	}
	s.log.Debug("a process is here", "pid", pid)
	return c, nil
}

func (s *server) forget(c *client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clients[c.id] == c {
		delete(s.clients, c.id)
	}
}

// leave ends the wait for the death of a living process.
func (c *client) leave() { _ = c.pidfd.SetReadDeadline(past) } // an error means that it is closed, and nobody waits

// expire limits the wait for the death of a process that has lost its connection: to nothing if it has
// sent no will, and otherwise until it would have connected again (keep) and its sessions would have timed
// out. The process may execute another program again and again.
func (c *client) expire() {
	if len(c.wills) == 0 {
		c.leave()
		return
	}
	wait := 2 * lastPause
	for _, w := range c.wills {
		wait = max(wait, 2*w.TTL)
	}
	_ = c.pidfd.SetReadDeadline(time.Now().Add(wait)) // an error means that it is closed, and nobody waits
}

// listen handles the messages of a process until the connection ends.
func (s *server) listen(c *client) error {
	for {
		m, files, err := read(c.conn)
		closeAll(files)
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded): // it is dead, or has left
			return err
		case !errors.Is(err, io.EOF):
			s.log.Warn("a process is not understood", "pid", c.id.pid, "err", err)
			_ = c.conn.Close() // it connects again, and sends everything
			fallthrough
		default:
			c.expire()
			return err
		}
		if !s.hear(c, m) {
			return nil
		}
	}
}

// hear handles a message. It returns false if no more follow.
func (s *server) hear(c *client, m message) bool {
	switch m.Kind {
	case kindTell:
		b := s.services[m.Will.Service]
		if s.open == nil && b == nil {
			s.log.Warn("refused a session", "pid", c.id.pid, "will", *m.Will, "err", errNone)
			_ = write(c.conn, message{Kind: kindRefused, Why: fmt.Sprintf("%v: %v", *m.Will, errNone)}) // it is in the log
			return true
		}
		if b != nil {
			if most := b.Limits().MaxTTL; most > 0 { // a process cannot make an agent try for a year
				m.Will.TTL = min(m.Will.TTL, most)
			}
		}
		c.wills[m.Will.Service+" "+m.Will.Session] = *m.Will
		if s.open != nil {
			s.rehearsal.Do(func() { go s.rehearse() })
		}
	case kindForget:
		delete(c.wills, m.Service+" "+m.Session)
	case kindBye:
		clear(c.wills)
		c.leave()
		return false
	}
	return true
}

// bury ends all sessions of a dead process, once its holds are released.
func (s *server) bury(c *client, died time.Time) {
	var all sync.WaitGroup
	defer all.Wait()
	s.log.Info("a process has died", "pid", c.id.pid, "sessions", len(c.wills))
	last := died // after this, nothing is left to end
	for _, w := range c.wills {
		if over := died.Add(2 * w.TTL); over.After(last) {
			last = over
		}
	}
	for pause := time.Millisecond; len(c.wills) > 0 && closed(c.gate); pause = min(2*pause, 20*time.Millisecond) {
		if time.Now().After(last) {
			s.log.Warn("a child of a dead process has not said that it does not act any more: its sessions time out", "pid", c.id.pid)
			return
		}
		time.Sleep(pause)
	}
	for _, w := range c.wills {
		all.Go(func() { s.execute(c, w, died) })
	}
}

// execute tries to end a session as long as the service may still have it.
func (s *server) execute(c *client, w backend.Will, died time.Time) {
	ctx, cancel := context.WithDeadline(context.Background(), died.Add(2*w.TTL))
	defer cancel()
	log := s.log.With("pid", c.id.pid, "service", w.Service, "session", w.Session)
	var last atomic.Value // why an attempt has failed
	last.Store("the service has not answered")
	defer time.AfterFunc(patience, func() {
		log.Warn("the session of a dead process is not ended yet: trying on", "err", last.Load())
	}).Stop()
	ctx = backend.WithTried(ctx, func(err error) { last.Store(err.Error()) })
	level := slog.LevelWarn // only once
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		tried := make(chan error, 1)
		go func() { tried <- s.try(ctx, w) }()
		var err error
		select {
		case err = <-tried:
		case <-time.After(time.Until(died.Add(2*w.TTL)) + patience): // an Opener may block for ever: it has no ctx
			err = ctx.Err()
		}
		if err == nil {
			log.Info("ended the session of a dead process", "after", time.Since(died))
			return
		}
		if ctx.Err() != nil || errors.Is(err, errNone) || errors.Is(err, backend.ErrDenied) || errors.Is(err, errors.ErrUnsupported) {
			if errors.Is(err, context.DeadlineExceeded) {
				err = fmt.Errorf("%w: %v", err, last.Load())
			}
			log.Warn("cannot end the session of a dead process: it times out", "err", err)
			return
		}
		log.Log(ctx, level, "the session of a dead process is not ended yet: trying again", "err", err)
		level = slog.LevelDebug
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

func (s *server) try(ctx context.Context, w backend.Will) error {
	s.mu.Lock()
	turns := s.turns[w.Service]
	if turns == nil {
		turns = make(chan struct{}, atOnce)
		s.turns[w.Service] = turns
	}
	s.mu.Unlock()
	select {
	case turns <- struct{}{}:
		defer func() { <-turns }()
	case <-ctx.Done():
		return ctx.Err()
	}
	b, err := s.service(w.Service)
	if err != nil {
		return err
	}
	return backend.Execute(ctx, b, w)
}

// rehearse makes a companion do once what it takes to end a session, because code that runs for the first
// time is slow, and closes the service again: nothing stays connected.
func (s *server) rehearse() {
	b, err := s.open()
	if err == nil {
		err = rehearse(b)
		if _, ok := b.(io.Closer); ok {
			err = errors.Join(err, closeIt(b))
		} else { // there will be no other
			s.opening.Lock()
			s.opened = cmp.Or(s.opened, b)
			s.opening.Unlock()
		}
	}
	if err != nil {
		s.log.Warn("sessions could not be ended now, if the process died", "err", err)
	}
}

func rehearse(b backend.Backend) error {
	if _, ok := b.(backend.Executor); !ok { // it may be a wrapper around an Executor
		return fmt.Errorf("%v cannot end sessions: %w", b, errors.ErrUnsupported)
	}
	ctx, cancel := context.WithTimeout(context.Background(), greeting)
	defer cancel()
	return backend.Rehearse(ctx, b)
}

func (s *server) service(name string) (b backend.Backend, err error) {
	if s.open == nil {
		return s.services[name], nil // others were refused
	}
	s.opening.Lock()
	defer s.opening.Unlock()
	if s.opened == nil {
		if s.opened, err = s.open(); err != nil {
			s.opened = nil
			return nil, err
		}
	}
	if s.opened.String() != name {
		return nil, errNone
	}
	return s.opened, nil
}

// serve runs the agent.
func serve(ctx context.Context, l *net.UnixListener, services map[string]backend.Backend, log *slog.Logger) error {
	s := newServer(services, nil, log)
	defer l.Close()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	working, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	for name, b := range services {
		all.Go(func() {
			if err := rehearse(b); err != nil {
				log.Warn("sessions could not be ended now, if a process died", "service", name, "err", err)
			}
		})
	}
	var err error
	for !errors.Is(err, net.ErrClosed) {
		var conn *net.UnixConn
		if conn, err = l.AcceptUnix(); err == nil {
			all.Go(func() { s.attend(working, conn) })
		} else if ctx.Err() == nil { // perhaps no descriptors are left
			log.Error("the agent cannot take a process in", "err", err)
			time.Sleep(patience)
		}
	}
	stop()
	ended := make(chan struct{})
	go func() { all.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(grace):
		log.Warn("the agent leaves sessions of dead processes behind: they time out")
	}
	if ctx.Err() != nil {
		return nil // this is the normal end
	}
	return err
}
