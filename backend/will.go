package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// A Will says how to end a session from outside its process, once the process is dead: [Execute] does it.
// It names one session for good: executed late, or twice, it ends no other. Its text (JSON) can be sent to
// another process through a pipe or a socket. Keep it secret: anybody who has it can end the session, and
// on ZooKeeper use it. Printing and logging a Will do not show its secret.
type Will struct {
	// Service is the name of the backend, as [Backend.String] returns it.
	Service string
	// Session is [Session.ID].
	Session string
	// TTL is [Session.TTL]. The service itself ends the session this long after the last heartbeat (Consul:
	// up to twice as long).
	TTL time.Duration
	// Secret is what the service asks for besides the backend's configuration: nil, or in a format of the
	// backend's own.
	Secret []byte
}

// willVersion is the version of a will's text.
const willVersion = 1

// willText is a will's text.
type willText struct {
	Version int    `json:"version"`
	Service string `json:"service"`
	Session string `json:"session"`
	TTL     string `json:"ttl"`
	Secret  []byte `json:"secret,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (w Will) MarshalJSON() ([]byte, error) {
	return json.Marshal(willText{willVersion, w.Service, w.Session, w.TTL.String(), w.Secret})
}

// UnmarshalJSON implements json.Unmarshaler. It refuses unknown versions.
func (w *Will) UnmarshalJSON(text []byte) error {
	var t willText
	if err := json.Unmarshal(text, &t); err != nil {
		return fmt.Errorf("will: %w", err)
	}
	if t.Version != willVersion {
		return fmt.Errorf("will: version %d; this program knows version %d: run the same release on both sides", t.Version, willVersion)
	}
	ttl, err := time.ParseDuration(t.TTL)
	switch {
	case t.Service == "" || t.Session == "":
		return errors.New("will: it names no service, or no session")
	case err != nil || ttl <= 0:
		return fmt.Errorf("will: %q is no session timeout", t.TTL)
	}
	*w = Will{t.Service, t.Session, ttl, t.Secret}
	return nil
}

// String leaves the secret out.
func (w Will) String() string { return fmt.Sprintf("will of %s session %s", w.Service, w.Session) }

// GoString leaves the secret out.
func (w Will) GoString() string { return w.String() }

// LogValue leaves the secret out.
func (w Will) LogValue() slog.Value { return slog.StringValue(w.String()) }

// A Testator is a [Driver] whose session an [Executor] can end.
type Testator interface {
	// WillSecret returns [Will.Secret]. It does not block, and may be called when the session is lost.
	WillSecret() []byte
}

// Will returns the will that ends the session from outside. It does not block. A session keeps its will for
// as long as it lives; one opened in its place has another. Sessions of [Share] have the will of the shared
// session. The error is errors.ErrUnsupported if the backend has no wills.
func (s *Session) Will() (Will, error) {
	t, ok := s.driver.(Testator)
	if !ok {
		return Will{}, fmt.Errorf("%s: will: %w", s.name, errors.ErrUnsupported)
	}
	return Will{s.name, s.driver.ID(), s.driver.TTL(), t.WillSecret()}, nil
}

// An Executor is a [Backend] that can end sessions of other processes.
type Executor interface {
	// Execute implements the function [Execute].
	Execute(ctx context.Context, w Will) error
}

// Execute ends the session of a will at the service of b, which may be another Backend, in another process,
// than the one that opened it. It returns nil once the service has confirmed that the session is over,
// ended by anybody; its entries are gone then. It tries until ctx ends or the service refuses (ErrDenied).
// The error is errors.ErrUnsupported if b cannot end sessions.
//
// The caller must be certain that the session's process is dead. A living process trusts its session until
// Deadline, and another would lead before that: two leaders. A pidfd proves death; a closed connection, a
// missing heartbeat and a process ID prove nothing.
func Execute(ctx context.Context, b Backend, w Will) error {
	e, ok := b.(Executor)
	switch {
	case !ok:
		return fmt.Errorf("%v: execute: %w", b, errors.ErrUnsupported)
	case w.Service != b.String():
		return fmt.Errorf("%v: execute: the will is of a session of %q", b, w.Service)
	}
	if err := e.Execute(ctx, w); err != nil {
		return fmt.Errorf("%v: execute: session %s: %w", b, w.Session, err)
	}
	return nil
}

type triedKey struct{}

// WithTried returns a ctx with which Execute tells tried why an attempt has failed after which it tries on. tried must
// not block.
func WithTried(ctx context.Context, tried func(error)) context.Context {
	return context.WithValue(ctx, triedKey{}, tried)
}

// Tried is for Executors: it tells the function of WithTried, if there is one.
func Tried(ctx context.Context, err error) {
	if tried, ok := ctx.Value(triedKey{}).(func(error)); ok {
		tried(err)
	}
}

// A Rehearser is an [Executor] whose first execution in a process takes much longer than later ones,
// because code that nothing has used yet must be set up.
type Rehearser interface {
	// Rehearse implements the function [Rehearse].
	Rehearse(ctx context.Context) error
}

// Rehearse makes sure that b can execute a will without delay and can reach the service for it. It ends no
// session, writes nothing, and blocks until it is done or ctx ends. It does nothing if b is no [Rehearser].
func Rehearse(ctx context.Context, b Backend) error {
	if r, ok := b.(Rehearser); ok {
		return r.Rehearse(ctx)
	}
	return nil
}

// Execute implements Executor, if the Backend below does.
func (b *layered) Execute(ctx context.Context, w Will) error { return ExecuteBelow(ctx, b.Backend, w) }

// Rehearse implements Rehearser.
func (b *layered) Rehearse(ctx context.Context) error { return Rehearse(ctx, b.Backend) }

// Execute implements Executor, if the shared Backend does.
func (b *Shared) Execute(ctx context.Context, w Will) error { return ExecuteBelow(ctx, b.backend, w) }

// Rehearse implements Rehearser.
func (b *Shared) Rehearse(ctx context.Context) error { return Rehearse(ctx, b.backend) }

// ExecuteBelow is Executor.Execute of a Backend around b: it passes the call on. Errors are b's.
func ExecuteBelow(ctx context.Context, b Backend, w Will) error {
	if e, ok := b.(Executor); ok {
		return e.Execute(ctx, w)
	}
	return errors.ErrUnsupported
}
