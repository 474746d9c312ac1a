package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
	"github.com/elector-go/elector/backend/zookeeper/internal/wire"
)

var (
	_ backend.Backend  = (*Backend)(nil)
	_ backend.Executor = (*Backend)(nil)
	_ backend.Driver   = (*session)(nil)
	_ backend.Testator = (*session)(nil)
)

// sendSlack is how much larger the send buffer is than the largest request: its length, and some room,
// because the client library crashes where the buffer ends in mid-value.
const sendSlack = 64

// A Backend opens sessions with a ZooKeeper ensemble. Make it with New.
type Backend struct {
	cfg    Config
	ballot ballot
	locals atomic.Int32 // see session.locals
}

// New returns a Backend. It reports all errors in cfg at once, and does not connect.
func New(cfg Config) (*Backend, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Backend{cfg: cfg.withDefaults()}, nil
}

// String returns "zookeeper".
func (b *Backend) String() string { return "zookeeper" }

// Limits returns the session timeouts that may be requested. They are wide; the server decides.
func (b *Backend) Limits() backend.Limits {
	return backend.Limits{MinTTL: MinSessionTimeout, MaxTTL: MaxSessionTimeout, DefaultTTL: b.cfg.SessionTimeout}
}

// Dial connects to one server, "host:port", as sessions do, with TLS if they use it, and asks for no
// session. It is for four-letter words. It blocks until ctx ends, or for as long as a session with the
// default timeout tries one server. The caller closes the connection.
func (b *Backend) Dial(ctx context.Context, address string) (net.Conn, error) {
	return b.cfg.dial(ctx, new(addresses), "tcp", address, b.cfg.connectTimeout(b.cfg.SessionTimeout))
}

// Conn returns the native connection of a session of this package, for the user's own transactions, or
// nil for other sessions. It is pinned: after the end of the session it does not continue in another
// one. Paths are the server's: see Path. The caller must not Close it, and must not add credentials.
//
// The first call for a session makes the connection's buffer grow to Config.MaxRequest, so that
// requests of that size may be sent. It takes a round trip, and blocks while the session is suspended.
func Conn(s *backend.Session) *zk.Conn {
	own := driver.Of[*session](s)
	if own == nil {
		return nil
	}
	own.makeRoom(own.cfg.MaxRequest)
	return own.conn
}

// Path returns the server's path of a key: the chroot and the key. For sessions that are not of this
// package it returns the key itself.
func Path(s *backend.Session, key string) string {
	if own := driver.Of[*session](s); own != nil {
		return own.path(key)
	}
	return key
}

// Open implements backend.Backend. When ctx ends first, it closes the half-open connection in the
// background, within a few seconds.
func (b *Backend) Open(ctx context.Context, o backend.OpenOptions) (*backend.Session, error) {
	return driver.OpenApart(ctx, b, o, b.open)
}

func (b *Backend) open(ctx context.Context, ttl time.Duration) (*session, error) {
	if most := b.cfg.longestMargin(ttl); b.cfg.Margin > most {
		return nil, fmt.Errorf("Config.Margin of %v is too long for a TTL of %v: it must be at most %v", b.cfg.Margin, ttl, most)
	}
	s := newSession(&b.cfg, &b.ballot, ttl)
	s.locals = &b.locals
	first, err := s.hosts.reach(ctx, &b.cfg, b.cfg.connectTimeout(ttl))
	if err != nil {
		return nil, err
	}
	s.first = first
	if err := s.start(ttl); err != nil {
		_ = first.conn.Close() // nothing was sent on it
		return nil, err
	}
	if err := s.establish(ctx); err != nil {
		s.Lose(errors.New("not opened"))
		return nil, err
	}
	return s, nil
}

// start makes the client library open the session, in the background.
func (s *session) start(ttl time.Duration) error {
	conn, events, err := zk.Connect(s.cfg.Servers, ttl,
		zk.WithHostProvider(s.hosts),
		zk.WithDialer(s.dial),
		zk.WithEventCallback(s.event),
		zk.WithLogger(chatter{s.cfg.Logger}),
		s.pin.WithBuffer(s.cfg.firstBuffer(), ttl/4),
	)
	if err != nil {
		return err
	}
	s.conn, s.events = conn, events
	close(s.started)
	return nil
}

// establish waits for the session, presents the credentials and makes the chroot.
func (s *session) establish(ctx context.Context) error {
	select {
	case <-s.opened:
		if most := s.cfg.longestMargin(s.TTL()); s.cfg.Margin > most {
			return fmt.Errorf("Config.Margin of %v is too long for the %v that the server granted: make it %v at most, or raise the servers' maxSessionTimeout", s.cfg.Margin, s.TTL(), most)
		}
		if s.cfg.Heartbeat == HeartbeatLeader {
			s.beats()
		}
	case <-s.hosts.exhausted:
		return s.notOpened(s.hosts.noSession())
	case <-s.Ctx.Done():
		return s.notOpened(s.LostError())
	case <-ctx.Done():
		return s.hosts.over(ctx)
	}
	for _, auth := range s.cfg.Auth {
		// A failure closes the connection, and would repeat on each new one. The library presents the
		// credential again after a reconnect only if it succeeded once.
		_, err := read(ctx, s, func() (struct{}, error) {
			err := s.conn.AddAuth(auth.Scheme, auth.Credentials)
			return struct{}{}, err
		})
		if err != nil {
			return fmt.Errorf("authenticate with scheme %q: %w", auth.Scheme, readError(err))
		}
	}
	if s.cfg.Chroot != "" {
		if err := s.makeDirs(ctx, s.cfg.Chroot); err != nil {
			return fmt.Errorf("make chroot %s: %w", s.cfg.Chroot, err)
		}
	}
	return nil
}

// notOpened returns err, unless the session was lost to a server of another product: retries are
// useless.
func (s *session) notOpened(err error) error {
	if s.Ctx.Err() != nil && errors.Is(s.LostError(), wire.ErrForeign) {
		return wire.ErrForeign
	}
	return err
}

// makeDirs creates path and its missing ancestors as plain persistent nodes.
func (s *session) makeDirs(ctx context.Context, path string) error {
	stat, err := s.exists(ctx, path)
	if err != nil || stat != nil {
		return readError(err)
	}
	if parent := backend.Parent(path); parent != "/" {
		if err := s.makeDirs(ctx, parent); err != nil {
			return err
		}
	}
	// After a lost reply the create is simply repeated.
	_, err = read(ctx, s, func() (string, error) {
		return s.conn.Create(path, []byte{}, 0, s.cfg.ACL)
	})
	switch {
	case errors.Is(err, zk.ErrNodeExists):
		return nil
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNoChildrenForEphemerals):
		return as(backend.ErrNoParent, err)
	}
	return readError(err)
}

// chatter writes the client library's log at debug level.
type chatter struct{ log *slog.Logger }

func (c chatter) Printf(format string, args ...any) {
	if c.log.Enabled(context.Background(), slog.LevelDebug) {
		c.log.Debug("zookeeper client: " + fmt.Sprintf(format, args...))
	}
}
