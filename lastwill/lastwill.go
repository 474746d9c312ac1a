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
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/asynclog"
)

// An Opener opens the Backend. Start calls it once in the process. The companion calls it when there is a
// session, to test whether that could be ended ([backend.Rehearse]), and once when the process is dead,
// and again after an error. The companion closes the backend of the test afterwards, if it is an
// io.Closer. An Opener should not wait for servers: package dial does not.
type Opener func() (backend.Backend, error)

// Options are the options of Start. The zero value is usable.
type Options struct {
	// Agent is the path of the Unix socket of an agent of this host (Serve). Then the agent is the
	// companion, and no process is started. While nobody serves the socket, the process continues without
	// a companion and tries again, from 100 ms to every 30 s: a relative path is resolved in the current
	// directory of that time. An agent of another cluster is not detected. The agent must belong to root,
	// to the user of this process, or to the owner of the socket's directory, because it gets what ends
	// sessions.
	Agent string
	// Optional makes Start return a Backend without a companion, and log why, instead of failing with
	// errors.ErrUnsupported.
	Optional bool
	// Logger is the logger of the process and of the companion, in which the program makes it again. It
	// writes where the program directs it; the companion's standard output is /dev/null. The default is
	// slog.Default().
	Logger *slog.Logger
	// OnEvent, if not nil, is called when a companion is ready and when it is gone, one call at a time. It
	// must not block, and must not call Close.
	OnEvent func(Event)
}

// An EventKind says what happened to a companion.
type EventKind string

const (
	// Ready: a companion has received all sessions.
	Ready EventKind = "ready"
	// Lost: there is no companion at the moment; another try follows.
	Lost EventKind = "lost"
	// GivenUp: there will be no companion, because the program does not reach Start in it.
	GivenUp EventKind = "given up"
	// Refused: the companion does not accept a session's will. Err says why.
	Refused EventKind = "refused"
)

// An Event is something that happened to a companion.
type Event struct {
	Kind EventKind
	// PID is the process id of the companion or the agent, if known.
	PID int
	Err error // nil if Ready
}

// A Backend is a backend whose sessions are ended when this process dies. Start makes it. It is a
// backend.Backend and a backend.Executor.
type Backend struct {
	backend.Backend // with a layer around its sessions
	inner           backend.Backend
	log             *slog.Logger
	on              func(Event)
	hold            func() (*Hold, error)

	stop   func()        // ends the companion; may be called several times
	done   chan struct{} // closed when the companion is finally gone
	tried  chan struct{} // closed when the first companion has received everything, or has failed
	unlock func()        // allows the next Start

	mu    sync.Mutex
	wills map[string]*told // by session
	conn  *net.UnixConn    // to a companion that has received everything; nil if none
	left  bool             // Close was called, and there were sessions left
}

// firstOpen is how long Open waits for the first companion.
const firstOpen = 2 * time.Second

// told is a session whose will has been or will be sent to the companion.
type told struct {
	will    backend.Will
	life    backend.Life // of the session itself, below all layers
	handles int          // several sessions of Share may be one session of the service
}

// started ensures that there is one companion at a time: in a second companion, the program would reach
// only its first call of Start, with that call's Opener.
var started sync.Mutex

// Start opens a Backend in this process, and starts the companion that ends its sessions when this process
// dies. In the companion it does not return: see the package comment for the consequences for main. It
// does not wait for the companion; the first Open does, for at most two seconds. A session is covered from
// the moment Open returns.
//
// A process has one such Backend at a time: a second Start before Close fails. With an agent
// (Options.Agent) there may be several.
//
// The error is errors.ErrUnsupported if a companion is impossible (another system than Linux, a kernel
// before 5.3, a sandbox that does not allow pidfd_open, no /proc, process 1 of a container). The caller
// must Close the Backend after its sessions.
func Start(open Opener, o Options) (*Backend, error) {
	o.Logger = asynclog.New(cmp.Or(o.Logger, slog.Default()))
	if marked != nil {
		becomeCompanion(marked, open, o.Logger) // does not return
	}
	unlock := func() {}
	if o.Agent == "" {
		if !started.TryLock() {
			return nil, errors.New("lastwill: start: this process has a companion already: Close the Backend first, or use an agent")
		}
		unlock = sync.OnceFunc(started.Unlock)
	}
	b, err := start(open, o)
	if err != nil {
		unlock()
		return nil, fmt.Errorf("lastwill: start: %w", err)
	}
	b.unlock = unlock
	return b, nil
}

func start(open Opener, o Options) (*Backend, error) {
	inner, err := open()
	if err != nil {
		return nil, err
	}
	b := &Backend{inner: inner, log: o.Logger, on: o.OnEvent, wills: make(map[string]*told), done: make(chan struct{}), tried: make(chan struct{}), hold: holdNothing}
	if b.on == nil {
		b.on = func(Event) {}
	}
	b.Backend = backend.Around(inner, b.around)
	err = b.accompany(o)
	switch {
	case err == nil:
		return b, nil
	case o.Optional && errors.Is(err, errors.ErrUnsupported):
		b.log.Warn("no companion: if this process crashes, its sessions time out", "err", err)
		b.stop = sync.OnceFunc(func() { close(b.done) })
		close(b.tried) // no Open waits
		return b, nil
	}
	return nil, errors.Join(err, closeIt(inner))
}

// Execute implements backend.Executor, if the opened Backend does.
func (b *Backend) Execute(ctx context.Context, w backend.Will) error {
	return backend.ExecuteBelow(ctx, b.inner, w)
}

// Close ends the companion, and closes the opened Backend if it is an io.Closer. Close the sessions first.
// If the service has not confirmed the end of a session, the companion stays, and ends that session when
// the process dies. Close may be called several times.
func (b *Backend) Close() error {
	b.stop()
	<-b.done
	b.unlock()
	return closeIt(b.inner)
}

func closeIt(b backend.Backend) error {
	if c, ok := b.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// around sends the companion a session that was opened, and returns the layer that sees the session's end.
func (b *Backend) around(s *backend.Session) backend.Layer {
	will, err := s.Will()
	if err != nil {
		b.log.Warn("no last will: if this process crashes, the session times out", "session", s.ID(), "err", err)
		return backend.Layer{}
	}
	b.tell(will, s.Driver())
	select { // a leader may crash at once
	case <-b.tried:
	case <-b.done:
	case <-time.After(firstOpen):
	}
	var once sync.Once // a session may be closed several times
	return backend.Layer{Call: func(ctx context.Context, c *backend.Call, next func(context.Context) error) error {
		err := next(ctx)
		if c.Kind == backend.CallClose && err == nil {
			once.Do(func() { b.forget(will) })
		}
		return err
	}}
}

func (b *Backend) tell(w backend.Will, life backend.Life) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.prune(few)
	if t := b.wills[w.Session]; t != nil {
		t.handles++
		return
	}
	b.wills[w.Session] = &told{will: w, life: life, handles: 1}
	b.send(message{Kind: kindTell, Will: &w})
}

// forget drops a session whose end the service has confirmed, or one handle of a shared session.
func (b *Backend) forget(w backend.Will) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.wills[w.Session]
	if t == nil {
		return // pruned
	}
	if t.handles--; t.handles == 0 {
		b.drop(w)
	}
	b.prune(few)
}

// few is how many sessions are checked each time a session comes or goes, so that neither the number of
// old sessions nor the time for this grows.
const few = 8

// prune forgets the sessions that are over without a successful Close, once no service has them any more.
// It checks up to most of them, in the map's order.
func (b *Backend) prune(most int) {
	for _, t := range b.wills {
		if most--; most < 0 {
			return
		}
		if t.life.State() == backend.Lost && time.Since(t.life.Deadline()) > 2*t.will.TTL {
			b.drop(t.will)
		}
	}
}

func (b *Backend) drop(w backend.Will) {
	delete(b.wills, w.Session)
	b.send(message{Kind: kindForget, Service: w.Service, Session: w.Session})
}

// send sends a message to the companion, if there is one. A new companion gets everything.
func (b *Backend) send(m message) {
	if b.conn == nil {
		return
	}
	if err := write(b.conn, m); err != nil {
		b.log.Warn("the companion does not listen", "err", err)
		_ = b.conn.Close() // wakes the reader, which does the rest
		b.conn = nil
	}
}

// A Hold keeps the companion from ending sessions after the death of this process, until a child that acts
// in its name has said that it no longer does. Without that word, the companion never ends them: they time
// out.
type Hold struct {
	file    *os.File
	release func() error
}

// Hold takes a hold. Call it before starting the child, which must get [Hold.File]. There may be several
// holds. They do not depend on the companion: they also hold for a frozen companion, and for companions
// started later. Without a companion, a hold does nothing. The caller must Release it.
func (b *Backend) Hold() (*Hold, error) {
	h, err := b.hold()
	if err != nil {
		return nil, fmt.Errorf("lastwill: hold: %w", err)
	}
	return h, nil
}

// holdNothing is hold without a companion.
func holdNothing() (*Hold, error) {
	file, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	return &Hold{file, func() error { return nil }}, err
}

// File returns the file for the child, for example for exec.Cmd.ExtraFiles: the child writes one zero
// byte to it, or calls [Done], when it has stopped acting. Call File before Release, which closes the file.
func (h *Hold) File() *os.File { return h.file }

// Release takes the hold back: the child was not started, or is known to have stopped acting. It is
// harmless if the child has said so, too, or if Release is called twice.
func (h *Hold) Release() error {
	_ = h.file.Close() // it may already be closed; nothing was written
	return h.release()
}

// Done reports that a child, which has the file of a [Hold], no longer acts in the name of its parent. It
// closes the file.
func Done(file *os.File) error {
	_, err := file.Write([]byte{0})
	return errors.Join(err, file.Close())
}

// ServeOptions are the options of Serve.
type ServeOptions struct {
	// Backends are the services whose sessions the agent can end. Each is a backend.Executor with a unique
	// name (String), for example one "etcd" and one "zookeeper". For two clusters of one kind, run two
	// agents. The caller of Serve closes them afterwards.
	Backends []backend.Backend
	// Logger logs what the agent does. The default is slog.Default().
	Logger *slog.Logger
}

// Serve runs an agent: it ends the sessions of processes of this host that have connected to l
// (Options.Agent), when they die. l must be of the network "unixpacket". Serve blocks until ctx ends, and
// then until the sessions that it is already ending are ended, for at most five seconds; it closes l.
// Living processes reconnect by themselves and send everything to the next agent.
//
// Everybody who may connect to the socket can end sessions of the services, even those of others whose
// names they know: set the rights of the socket's file accordingly. The agent does not trust what a
// process says about itself. It refuses a process if the kernel does not confirm its identity, or if the
// agent's process namespace does not show it.
func Serve(ctx context.Context, l *net.UnixListener, o ServeOptions) error {
	o.Logger = asynclog.New(cmp.Or(o.Logger, slog.Default()))
	services := make(map[string]backend.Backend)
	for _, b := range o.Backends {
		name := b.String()
		if _, ok := b.(backend.Executor); !ok {
			return fmt.Errorf("lastwill: serve: %s cannot end sessions: %w", name, errors.ErrUnsupported)
		}
		if services[name] != nil {
			return fmt.Errorf("lastwill: serve: two services are called %s: run an agent for each", name)
		}
		services[name] = b
	}
	if len(services) == 0 {
		return errors.New("lastwill: serve: no service was given")
	}
	if network := l.Addr().Network(); network != "unixpacket" {
		return fmt.Errorf(`lastwill: serve: the listener is of the network %q: listen on "unixpacket"`, network)
	}
	if err := serve(ctx, l, services, o.Logger); err != nil {
		return fmt.Errorf("lastwill: serve: %w", err)
	}
	return nil
}
