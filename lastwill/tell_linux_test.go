package lastwill_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/lastwill"
)

// listener is an agent that records what it is sent.
func listener(t *testing.T) (path string, told chan string) {
	path = t.TempDir() + "/agent"
	return path, listenAt(t, path)
}

func listenAt(t *testing.T, path string) (told chan string) {
	t.Helper()
	l := must.Get(net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"}))(t)
	t.Cleanup(func() { _ = l.Close() })
	told = make(chan string, 100)
	go func() {
		for {
			conn, err := l.AcceptUnix()
			if err != nil {
				return
			}
			var packet [1 << 16]byte
			for {
				n, err := conn.Read(packet[:])
				if err != nil || n == 0 {
					break
				}
				var m struct {
					Kind, Session string
					Will          struct{ Session string }
				}
				if err := json.Unmarshal(packet[:n], &m); err != nil {
					panic(err)
				}
				if m.Kind == "hello" {
					_, _ = conn.Write([]byte(`{"v":1,"kind":"welcome"}`))
					continue
				}
				told <- m.Kind + " " + m.Session + m.Will.Session
			}
			told <- "closed"
			_ = conn.Close()
		}
	}()
	return told
}

// next returns the next message that was sent.
func next(t *testing.T, told chan string) string {
	t.Helper()
	return wait.Receive(t, "a word", told)
}

// started returns a Backend whose agent has received everything.
func started(t *testing.T, inner backend.Backend, agent string) *lastwill.Backend {
	t.Helper()
	ready := make(chan struct{})
	b, err := lastwill.Start(func() (backend.Backend, error) { return inner, nil }, lastwill.Options{Agent: agent,
		OnEvent: func(e lastwill.Event) {
			if e.Kind == lastwill.Ready {
				close(ready)
			}
		}})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, b.Close()) })
	wait.Receive(t, "an agent", ready)
	return b
}

func opened(t *testing.T, b backend.Backend) *backend.Session {
	t.Helper()
	return must.Get(b.Open(t.Context(), backend.OpenOptions{}))(t)
}

func TestToldAndForgotten(t *testing.T) {
	path, told := listener(t)
	b := started(t, &service{}, path)
	s := opened(t, b)
	assert.Equal(t, "tell "+s.ID(), next(t, told))
	d := s.Driver().(*session)
	d.err = errors.New("the service does not answer")
	require.Error(t, s.Close(t.Context())) // it may still exist: its will is kept
	other := opened(t, b)
	assert.Equal(t, "tell "+other.ID(), next(t, told))
	d.lose(2*ttl() - time.Minute)
	third := opened(t, b)
	assert.Equal(t, "tell "+third.ID(), next(t, told), "the service may have the session yet")
	d.lose(2*ttl() + time.Second)
	require.NoError(t, third.Close(t.Context()))
	assert.ElementsMatch(t, []string{"forget " + third.ID(), "forget " + s.ID()}, []string{next(t, told), next(t, told)})
	for range 2 {
		require.NoError(t, other.Close(t.Context()))
	}
	assert.Equal(t, "forget "+other.ID(), next(t, told))
	require.NoError(t, b.Close())
	assert.Equal(t, "bye ", next(t, told))
	assert.Equal(t, "closed", next(t, told))
}

// A shared session is sent once, and forgotten with its last handle, whichever Backend wraps the other.
func TestShared(t *testing.T) {
	for name, share := range map[string]func(t *testing.T, path string) backend.Backend{
		"Share around": func(t *testing.T, path string) backend.Backend {
			return backend.Share(started(t, &service{}, path), 0)
		},
		"Share below": func(t *testing.T, path string) backend.Backend {
			return started(t, backend.Share(&service{}, 0), path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path, told := listener(t)
			b := share(t, path)
			one, two := opened(t, b), opened(t, b)
			require.Equal(t, one.ID(), two.ID())
			assert.Equal(t, "tell "+one.ID(), next(t, told))
			for range 3 {
				require.NoError(t, one.Close(t.Context()))
			}
			three := opened(t, b)
			require.NoError(t, two.Close(t.Context()))
			assert.Empty(t, told)
			require.NoError(t, three.Close(t.Context()))
			assert.Equal(t, "forget "+one.ID(), next(t, told))
			four := opened(t, b)
			assert.Equal(t, "tell "+four.ID(), next(t, told))
			assert.NotEqual(t, one.ID(), four.ID())
			require.NoError(t, four.Close(t.Context()))
		})
	}
}

// plain is a backend without wills.
type plain struct{ backend.Backend }

func (plain) Open(context.Context, backend.OpenOptions) (*backend.Session, error) {
	return backend.NewSession("plain", plainSession{}), nil
}
func (plain) String() string { return "plain" }

type plainSession struct{ backend.Driver }

func (plainSession) ID() string                  { return "1" }
func (plainSession) Close(context.Context) error { return nil }

func TestBackendWithoutWills(t *testing.T) {
	path, told := listener(t)
	b := started(t, plain{}, path)
	require.NoError(t, opened(t, b).Close(t.Context()))
	assert.Empty(t, told)
	assert.ErrorIs(t, backend.Execute(t.Context(), b, backend.Will{Service: "plain", Session: "1", TTL: time.Second}), errors.ErrUnsupported)
}

// A wrapper that does not pass wills on is detected before the process dies.
func TestBackendThatPassesNoWillsOn(t *testing.T) {
	t.Parallel()
	p := newWorld(t).start("wrapped")
	p.ready()
	p.do("open")
	p.logs("sessions could not be ended now")
	p.logs("toy cannot end sessions")
}

func TestServeRefuses(t *testing.T) {
	for says, backends := range map[string][]backend.Backend{
		"no service":   nil,
		"two services": {&service{}, &service{}},
		"cannot end":   {&service{}, plain{}},
	} {
		assert.ErrorContains(t, lastwill.Serve(t.Context(), nil, lastwill.ServeOptions{Backends: backends}), says)
	}
	l := must.Get(net.ListenUnix("unix", &net.UnixAddr{Name: t.TempDir() + "/agent", Net: "unix"}))(t)
	defer l.Close()
	assert.ErrorContains(t, lastwill.Serve(t.Context(), l, lastwill.ServeOptions{Backends: []backend.Backend{&service{}}}), "unixpacket")
}

// unlimited is a service that states no limits of timeouts.
type unlimited struct{ service }

func (*unlimited) Limits() backend.Limits { return backend.Limits{} }

func (u *unlimited) Execute(ctx context.Context, w backend.Will) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return u.service.Execute(ctx, w)
}

// An agent uses the TTL of a will if its service states no maximum.
func TestServiceWithoutLimits(t *testing.T) {
	w := newWorld(t)
	w.agent = t.TempDir() + "/agent"
	t.Setenv(ledgerVar, w.ledger)
	l := must.Get(net.ListenUnix("unixpacket", &net.UnixAddr{Name: w.agent, Net: "unixpacket"}))(t)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- lastwill.Serve(ctx, l, lastwill.ServeOptions{Backends: []backend.Backend{&unlimited{}}})
	}()
	p, _ := w.candidate()
	id := p.do("open")
	p.kill()
	w.awaitEnded(id)
	stop()
	require.NoError(t, <-served)
}
