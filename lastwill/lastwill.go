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

// An Opener opens the Backend. It is called once in the process, by Start. In the companion it is
// called when there is a session, to try out whether that could be ended ([backend.Rehearse]), and once
// the process is dead, again after an error. What it opens for the trial is closed after it, if it is
// an io.Closer. It should not wait for servers: package dial does not.
type Opener func() (backend.Backend, error)

// Options are those of Start. The zero value is fit for use.
type Options struct {
	// Agent is the path of the Unix socket of an agent of this host (Serve): it is the companion then,
	// and no process is started. The process goes on without while there is nobody at the socket, and
	// tries again, from 100 ms to every 30 s: a relative path is taken from where the process is then.
	// Nothing tells it that an agent is of another cluster. The agent must be of root, of the user of this
	// process, or of the owner of the socket's directory: it is told what ends sessions.
	Agent string
	// Optional has Start return a Backend without a companion, and log why, where it would fail with
	// errors.ErrUnsupported.
	Optional bool
	// Logger is that of the process and, as the program makes it there once more, of the companion.
	// It writes wherever the program lets it; the companion's standard output is /dev/null. The
	// default is slog.Default().
	Logger *slog.Logger
	// OnEvent, if not nil, is called when there is a companion and when there is none any more, one
	// call after the other. It must not block, and not call Close.
	OnEvent func(Event)
}

// An EventKind says what has happened to a companion.
type EventKind string

const (
	// Ready: a companion has been told all sessions.
	Ready EventKind = "ready"
	// Lost: there is no companion at the moment; another try follows.
	Lost EventKind = "lost"
	// GivenUp: there will be none, as the program does not get as far as Start in its companion.
	GivenUp EventKind = "given up"
	// Refused: the companion does not take a session's will. Err says why.
	Refused EventKind = "refused"
)

// An Event is what has happened to a companion.
type Event struct {
	Kind EventKind
	// PID is that of the companion, or of the agent, where it is known.
	PID int
	Err error // nil if Ready
}

// A Backend is one whose sessions are ended when this process dies. Start makes it. It is a
// backend.Backend and a backend.Executor.
type Backend struct {
	backend.Backend // with a layer around its sessions
	inner           backend.Backend
	log             *slog.Logger
	on              func(Event)
	hold            func() (*Hold, error)

	stop   func()        // ends the companion; it may be called several times
	done   chan struct{} // closed when the companion is gone for good
	tried  chan struct{} // closed when the first companion has been told all, or has failed
	unlock func()        // lets the next Start begin

	mu    sync.Mutex
	wills map[string]*told // by session
	conn  *net.UnixConn    // to a companion that has been told all; nil: none
	left  bool             // Close was called, and there were sessions
}

// firstOpen is how long Open waits for the first companion.
const firstOpen = 2 * time.Second

// told is a session whose will the companion has, or will get.
type told struct {
	will    backend.Will
	life    backend.Life // of the session itself, below all layers
	handles int          // sessions of Share may be one session of the service
}

// started holds that there is one companion at a time: in another one the program would not get
// further than to the first call of Start, with the Opener of that.
var started sync.Mutex

// Start opens a Backend in this process, and starts the companion that ends its sessions when this
// process dies. In the companion it does not return: see the package comment for what that asks of
// main. It does not wait for the companion; the first Open does, for two seconds at most. A session is
// in its care from the moment at which Open returns.
//
// A process has one such Backend at a time: a second Start before Close fails. With an agent
// (Options.Agent) there may be several.
//
// The error is errors.ErrUnsupported where a companion is impossible (another system than Linux, a
// kernel before 5.3, a sandbox that does not allow pidfd_open, no /proc, process 1 of a container).
// The caller must Close the Backend after its sessions.
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

// Execute implements backend.Executor, if the Backend that was opened does.
func (b *Backend) Execute(ctx context.Context, w backend.Will) error {
	return backend.ExecuteBelow(ctx, b.inner, w)
}

// Close ends the companion, and closes the Backend that was opened if it is an io.Closer. Close the
// sessions first. Where the service has not confirmed the end of one, the companion stays, and ends that
// when the process dies. Close may be called several times.
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

// around tells the companion of a session that was opened, and returns the layer that sees its end.
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

// forget is for a session whose end the service has confirmed, and for one handle of a shared one.
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

// few is how many sessions are looked at each time that one comes or goes, so that neither they nor the
// time that this takes grow with their number.
const few = 8

// prune forgets the sessions that are over without anybody having closed them with success, once no
// service has them any more. It looks at so many of them, whichever the map has first.
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

// send tells the companion, if there is one: another one is told everything.
func (b *Backend) send(m message) {
	if b.conn == nil {
		return
	}
	if err := write(b.conn, m); err != nil {
		b.log.Warn("the companion does not listen", "err", err)
		_ = b.conn.Close() // wakes the reader, which sees to the rest
		b.conn = nil
	}
}

// A Hold keeps the companion from ending sessions after the death of this process, until a child
// that acts in its name has said that it does not any more. Without that word the companion never
// ends them: they time out.
type Hold struct {
	file    *os.File
	release func() error
}

// Hold takes a hold: before the child is started, which must get [Hold.File]. There may be several.
// It does not depend on the companion: it holds for one that is frozen, and for those started later.
// Without a companion it is there, too, and does nothing. The caller must Release it.
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

// File is what the child gets, such as by exec.Cmd.ExtraFiles: it writes one byte, zero, to it, or
// calls [Done], once it has ceased to act. Take it after Hold and before Release, which closes it.
func (h *Hold) File() *os.File { return h.file }

// Release takes the hold back: the child has not been started, or is known to have ceased to act. It
// does no harm if the child has said so, too, or if it is called twice.
func (h *Hold) Release() error {
	_ = h.file.Close() // it may be closed; nothing was written
	return h.release()
}

// Done says that a child, which has the file of a [Hold], does not act in the name of its parent any
// more. It closes the file.
func Done(file *os.File) error {
	_, err := file.Write([]byte{0})
	return errors.Join(err, file.Close())
}

// ServeOptions are those of Serve.
type ServeOptions struct {
	// Backends are those of the services whose sessions it can end: each a backend.Executor with a
	// name (String) of its own, such as one "etcd" and one "zookeeper". For two clusters of one kind
	// run two agents. Whoever calls Serve closes them afterwards.
	Backends []backend.Backend
	// Logger logs what the agent does. The default is slog.Default().
	Logger *slog.Logger
}

// Serve is an agent: it ends the sessions of processes of this host that have connected to l
// (Options.Agent), when they die. l must be of the network "unixpacket". It blocks until ctx ends,
// and then until the sessions that it is about to end are ended, five seconds at most; it closes l.
// The living processes are told all again by whoever serves next: they connect by themselves.
//
// Whoever may connect to the socket can have sessions of the services ended, also those of others
// that it knows the names of: give the socket's file the rights for that. The agent does not believe
// what a process says of itself. A process that the kernel does not show to be the one that it
// claims to be is refused, and so is one that the agent's process namespace does not show.
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
