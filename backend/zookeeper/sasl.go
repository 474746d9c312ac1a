package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper/internal/wire"
)

// A SASL authenticates each connection by one mechanism: see [DigestMD5], and package kerberos of the module
// backend/zookeeper/kerberos. It must be safe for concurrent use.
type SASL interface {
	// Start prepares an authentication with a server, by its host as in Config.Servers, without the port.
	// It is called when the server has accepted the connection, and before a session is asked for. It may
	// ask other services, such as for a ticket, until ctx ends. An error that wraps backend.ErrDenied says
	// that trying again is useless.
	Start(ctx context.Context, host string) (Exchange, error)
	// String says which mechanism it is, and for whom. It contains no secret.
	String() string
}

// An Exchange is one authentication. Its methods are called one after the other, and must not block. If it has a
// method Refused(), that is called when the server refuses: what the Exchange was started with may be no longer valid.
type Exchange interface {
	// Next returns the response to a server's token. The first one has no challenge (nil): the server
	// waits for the client's token, which may be empty. done says that the server's last word has been
	// heard if there is no response (nil), and otherwise that the server only has to accept the response.
	Next(challenge []byte) (response []byte, done bool, err error)
}

// startSASL prepares the authentication of a connection, or returns nil if there is none. began is when
// the connection was asked for; patience bounds all from then on until the session is granted.
func (c *Config) startSASL(ctx context.Context, address string, began time.Time, patience time.Duration) (Exchange, error) {
	if c.SASL == nil {
		return nil, nil
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithDeadlineCause(ctx, began.Add(patience*3/4), fmt.Errorf("not ready within %v", patience*3/4))
	defer cancel()
	x, err := c.start(ctx, host)
	if err == nil && x == nil { // else nobody would authenticate
		err = errors.New("Start has returned neither an Exchange nor an error")
	}
	if err != nil {
		return nil, fmt.Errorf("SASL with %v: %w", c.SASL, err)
	}
	return x, nil
}

// start calls SASL.Start on a goroutine of its own: it may ignore ctx, or end the goroutine, and no session ends before
// it has returned. Once ctx has ended, Start has a moment to say what it has waited for.
func (c *Config) start(ctx context.Context, host string) (Exchange, error) {
	type answer struct {
		x   Exchange
		err error
	}
	answered := make(chan answer, 1)
	go func() {
		a := answer{err: errors.New("Start has ended its goroutine (runtime.Goexit, or FailNow of a test)")}
		defer func() { answered <- a }()
		a.x, a.err = c.SASL.Start(ctx, host)
	}()
	select {
	case a := <-answered:
		return a.x, a.err
	case <-ctx.Done():
	}
	select {
	case a := <-answered:
		return a.x, a.err
	case <-time.After(100 * time.Millisecond):
		return nil, context.Cause(ctx)
	}
}

// A refusal is why a server cannot be used: it refuses Config.SASL. It hides backend.ErrDenied, because
// another server may not refuse.
type refusal struct{ error }

// refusedBy makes an error of SASL a refusal if trying again at that server is useless.
func refusedBy(err error) error {
	if errors.Is(err, wire.ErrRefused) || errors.Is(err, backend.ErrDenied) {
		return refusal{err}
	}
	return err
}
