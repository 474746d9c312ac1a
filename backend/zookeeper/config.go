package zookeeper

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper/internal/wire"
	"github.com/elector-go/elector/internal/asynclog"
	"github.com/elector-go/elector/tlsfiles"
)

// The limits and defaults of Config.
const (
	// DefaultSessionTimeout is requested if no other timeout is given.
	DefaultSessionTimeout = 10 * time.Second
	// MinSessionTimeout and MaxSessionTimeout bound what may be requested. The server has bounds of its
	// own (2 and 20 ticks by default); what it grants counts.
	MinSessionTimeout = 100 * time.Millisecond
	MaxSessionTimeout = 24 * time.Hour
	// DefaultMaxRequest is the server's own default limit, jute.maxbuffer.
	DefaultMaxRequest = 1<<20 - 1
	leastMax          = 16 << 10 // of a request or a reply
)

// A Dialer opens a connection to one server, given as "host:port", within timeout.
type Dialer = zk.Dialer

// Auth is one credential that a session presents.
type Auth struct {
	// Scheme is the server's authentication provider, for example "digest".
	Scheme string
	// Credentials are what the provider expects; for digest "user:password".
	Credentials []byte `json:"-"`
}

// String returns the scheme alone: an Auth may be printed and logged.
func (a Auth) String() string { return a.Scheme + ":(hidden)" }

// GoString returns String().
func (a Auth) GoString() string { return a.String() }

// Digest returns the Auth of a user and password.
func Digest(user, password string) Auth {
	return Auth{Scheme: "digest", Credentials: []byte(user + ":" + password)}
}

// Config says how sessions are opened. Only Servers is required.
type Config struct {
	// Servers are the ensemble's members as "host:port". They are tried in random order. Each attempt
	// looks host names up again. A name may have several addresses, also of different members: each
	// attempt begins with another one. While DNS is away, the addresses that were found last are used.
	Servers []string

	// SessionTimeout is requested when OpenOptions.TTL is zero; by default DefaultSessionTimeout. The
	// server may grant another one.
	SessionTimeout time.Duration

	// Heartbeat says which replies move the trust window, by default HeartbeatLeader. See the package
	// comment.
	Heartbeat Heartbeat

	// Margin shortens the trust window; by default it is an eighth of the granted timeout with
	// HeartbeatLeader, and a quarter with HeartbeatPing. See the package comment for what it must
	// cover. It must be at most a quarter of the timeout, both requested and granted, and with
	// HeartbeatPing half of it.
	Margin time.Duration

	// ConnectTimeout bounds the attempt at one server: connecting, TLS, and the session's handshake. By
	// default it is a third of the session timeout, and at least a second.
	ConnectTimeout time.Duration

	// Chroot is put before all keys, for example "/teams/search". It is created if it is missing. By
	// default a key is the server's path.
	Chroot string

	// Auth are the credentials that each session presents.
	Auth []Auth

	// SASL authenticates each connection before anything else is sent on it, by default not at all. See
	// DigestMD5.
	SASL SASL `json:"-"`

	// ACL is given to every created node. By default anyone may do anything; with Auth or SASL set, only
	// clients that present the same credentials.
	ACL []zk.ACL

	// TLS encrypts connections. An empty ServerName means the server's host name.
	TLS *tls.Config

	// GetTLS is TLS for certificates that are replaced while the program runs: it is asked for each
	// connection, must be safe for concurrent use, and must not block. Package tlsfiles has one.
	GetTLS func() (*tls.Config, error)

	// Dialer opens connections, and looks names up. By default the backend does. With TLS set, TLS runs
	// on the connection it returns. It must be safe for concurrent use. A connection that it returns
	// after its timeout is closed.
	Dialer Dialer

	// Logger receives the client library's log, at debug level, and the results of background work. By
	// default nothing is logged.
	Logger *slog.Logger

	// MaxRequest is the largest request in bytes, by default DefaultMaxRequest. A larger commit fails
	// with ErrTooLarge. It must not exceed the servers' jute.maxbuffer: they end the link at a longer
	// request, which results in ErrUnavailable after a session timeout. Each session has a buffer as
	// large as its largest request so far. A larger one costs one more round trip, if it is longer than
	// some 4 KB. The paths of all entries of a session take twice as much at most, or servers could not
	// read the transaction that ends it: one that would take more fails with ErrTooLarge.
	MaxRequest int

	// MaxResponse is the largest reply in bytes, by default without limit. A directory with a longer
	// listing cannot be listed, and an entry with a longer value cannot be read or written: that is
	// ErrTooLarge. Each connection has a buffer as large as its largest reply so far.
	MaxResponse int

	book *book // of a Backend
}

// Validate reports all errors in c, each with the field, its value and the rule.
func (c *Config) Validate() error {
	var errs []error
	bad := func(field string, value any, rule string) {
		errs = append(errs, fmt.Errorf("zookeeper: Config.%s is %v: %s", field, value, rule))
	}
	if len(c.Servers) == 0 {
		bad("Servers", "empty", `give at least one "host:port"`)
	}
	for i, server := range c.Servers {
		field := fmt.Sprintf("Servers[%d]", i)
		host, port, err := net.SplitHostPort(server)
		n, portErr := strconv.Atoi(port)
		switch {
		case err != nil:
			bad(field, strconv.Quote(server), `must be "host:port"`)
		case host == "":
			bad(field, strconv.Quote(server), "the host is missing")
		case portErr != nil || n < 1 || n > math.MaxUint16:
			bad(field, strconv.Quote(server), "the port must be a number from 1 to 65535")
		case slices.Contains(c.Servers[:i], server):
			bad(field, strconv.Quote(server), "is given twice")
		}
	}
	timeout := cmp.Or(c.SessionTimeout, DefaultSessionTimeout)
	if timeout < MinSessionTimeout || timeout > MaxSessionTimeout {
		bad("SessionTimeout", c.SessionTimeout, fmt.Sprintf("must be between %v and %v", MinSessionTimeout, MaxSessionTimeout))
	}
	switch {
	case c.Margin < 0:
		bad("Margin", c.Margin, "must not be negative")
	case c.Margin > c.longestMargin(timeout):
		bad("Margin", c.Margin, fmt.Sprintf("must be at most a quarter of SessionTimeout (%v) with HeartbeatLeader, and half of it with HeartbeatPing", timeout))
	}
	switch c.Heartbeat {
	case 0, HeartbeatLeader, HeartbeatPing:
	default:
		bad("Heartbeat", c.Heartbeat, "must be HeartbeatLeader or HeartbeatPing")
	}
	if c.TLS != nil && c.GetTLS != nil {
		bad("GetTLS", "set", "TLS is set, too: leave one of them out")
	}
	if c.ConnectTimeout < 0 {
		bad("ConnectTimeout", c.ConnectTimeout, "must not be negative")
	}
	if c.Chroot != "" {
		if err := backend.CheckKey(c.Chroot); err != nil {
			bad("Chroot", strconv.Quote(c.Chroot), "must be an absolute path: "+err.Error())
		}
	}
	for i, auth := range c.Auth {
		if auth.Scheme == "" {
			bad(fmt.Sprintf("Auth[%d].Scheme", i), "empty", `name the server's provider, for example "digest"`)
		}
	}
	for i, acl := range c.ACL {
		if acl.Scheme == "" || acl.Perms&zk.PermAll == 0 || acl.Perms&^zk.PermAll != 0 {
			bad(fmt.Sprintf("ACL[%d]", i), fmt.Sprintf("%+v", acl), "needs a scheme, and permissions among zk.PermAll")
		}
	}
	for i, most := range []int{c.MaxRequest, c.MaxResponse} {
		if most != 0 && (most < leastMax || most > math.MaxInt32-8) {
			bad([]string{"MaxRequest", "MaxResponse"}[i], most, fmt.Sprintf("must be at least %d bytes", leastMax))
		}
	}
	return errors.Join(errs...)
}

// withDefaults fills in the defaults, and copies what the user may change.
func (c Config) withDefaults() Config {
	c.Servers = slices.Clone(c.Servers)
	c.SessionTimeout = cmp.Or(c.SessionTimeout, DefaultSessionTimeout)
	c.Heartbeat = cmp.Or(c.Heartbeat, HeartbeatLeader)
	c.MaxRequest = cmp.Or(c.MaxRequest, DefaultMaxRequest)
	if c.ACL == nil {
		c.ACL = zk.WorldACL(zk.PermAll)
		if len(c.Auth) > 0 || c.SASL != nil {
			c.ACL = zk.AuthACL(zk.PermAll)
		}
	}
	c.ACL = slices.Clone(c.ACL)
	c.Auth = slices.Clone(c.Auth)
	c.Logger = asynclog.New(c.Logger)
	c.book = new(book)
	return c
}

// firstBuffer is the initial size of a session's buffer for requests, in bytes. Only commits make it
// grow: all else fits in.
func (c *Config) firstBuffer() int {
	n := wire.FirstBuffer
	for _, auth := range c.Auth {
		n += len(auth.Scheme) + len(auth.Credentials)
	}
	for _, acl := range c.ACL { // of the chroot's nodes
		n += 16 + len(acl.Scheme) + len(acl.ID)
	}
	return n
}

// margin returns the default margin for a granted timeout.
func (c *Config) margin(granted time.Duration) time.Duration {
	if c.Heartbeat == HeartbeatPing {
		return granted / 4
	}
	return granted / 8
}

// longestMargin leaves a window that the next heartbeat can move in time: pings come every third of the
// timeout, and the leader's replies move the window to where it was a quarter ago.
func (c *Config) longestMargin(timeout time.Duration) time.Duration {
	if c.Heartbeat == HeartbeatPing {
		return timeout / 2
	}
	return timeout / 4
}

func (c *Config) connectTimeout(ttl time.Duration) time.Duration {
	if c.ConnectTimeout > 0 {
		return c.ConnectTimeout
	}
	return max(ttl/3, time.Second)
}

// ask makes the user's Dialer open a connection. The Dialer may ignore the timeout: a later connection
// is closed.
func (c *Config) ask(ctx context.Context, network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("Config.Dialer has not returned within its timeout of %v", timeout))
	defer cancel()
	type answer struct {
		conn net.Conn
		err  error
	}
	answered := make(chan answer)
	go func() {
		conn, err := c.Dialer(network, address, timeout)
		select {
		case answered <- answer{conn, err}:
		case <-ctx.Done():
			if err == nil && conn != nil {
				_ = conn.Close() // nobody waits for it
			}
		}
	}()
	select {
	case a := <-answered:
		return a.conn, a.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// dial opens a connection to a server, with TLS if configured.
func (c *Config) dial(ctx context.Context, a *addresses, network, address string, timeout time.Duration) (net.Conn, error) {
	began, config := time.Now(), c.TLS
	var conn net.Conn
	var err error
	if c.GetTLS != nil {
		config, err = c.GetTLS()
		if err == nil && config == nil { // never without TLS
			err = errors.New("Config.GetTLS has returned no configuration")
		}
		if err != nil {
			return nil, err
		}
	}
	if c.Dialer != nil {
		conn, err = c.ask(ctx, network, address, timeout)
	} else {
		conn, err = a.dial(ctx, c.book, network, address, timeout)
	}
	if err != nil || config == nil {
		return conn, err
	}
	shake, cancel := context.WithTimeout(ctx, max(timeout-time.Since(began), timeout/4))
	defer cancel()
	return tlsfiles.Client(shake, conn, address, config)
}
