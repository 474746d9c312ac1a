package dial

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/asynclog"
)

// Usage is the help text of a flag that takes a URL.
const Usage = "coordination service: zk://host[:port],.../chroot, etcd://host[:port],.../prefix, consul://host[:port], or mem:// (in this process); " +
	"with ?timeout=10s for the session timeout, &tls=true, and for consul &check=2s"

// A Backend is an opened backend, with what Open made for it. It is a backend.Backend itself. It is safe
// for concurrent use.
type Backend struct {
	backend.Backend
	close func() error
}

// Close releases what Open made: the client of etcd or Consul, with its connections. The caller of Open
// must Close the Backend, after the electors and sessions: their last messages go through that client. Do
// not open a session after Close: etcd's client refuses that, and the others allow it. Close may be called
// several times, and on nil. It does not wait for servers; etcd's client may not come to an end
// (docs/backends.md), which an error reports after five seconds.
func (b *Backend) Close() error {
	if b == nil {
		return nil
	}
	return b.close()
}

// Execute implements backend.Executor, as the backends of all URLs do.
func (b *Backend) Execute(ctx context.Context, w backend.Will) error {
	return backend.ExecuteBelow(ctx, b.Backend, w)
}

// Rehearse implements backend.Rehearser.
func (b *Backend) Rehearse(ctx context.Context) error { return backend.Rehearse(ctx, b.Backend) }

// An Option says what a URL cannot.
type Option func(*options)

type options struct {
	log  *slog.Logger
	dial DialContext // nil: the client's own way
}

// DialContext opens a connection, as net.Dialer.DialContext does. It must be safe for
// concurrent use.
type DialContext func(ctx context.Context, network, address string) (net.Conn, error)

// WithLogger makes the backend and the service's client log to log, the client at debug level. By default
// nothing is logged.
func WithLogger(log *slog.Logger) Option { return func(o *options) { o.log = log } }

// WithDialContext makes dial open all connections to the service, for example to break them in a test. TLS,
// if it is used, is spoken on the connections that dial returns. mem:// has none.
func WithDialContext(dial DialContext) Option { return func(o *options) { o.dial = dial } }

// Open returns the backend that a URL names; see the package comment. The caller must Close it. Open does
// not connect and does not block. It returns an error if ctx has ended, and does not keep ctx.
func Open(ctx context.Context, url string, opts ...Option) (*Backend, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	t, err := parse(url)
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	var o options
	for _, set := range opts {
		set(&o)
	}
	o.log = asynclog.New(o.log)
	b, close, err := t.scheme.open(t, o)
	if err != nil {
		return nil, fmt.Errorf("dial %s://: %w", t.scheme.name, err)
	}
	return &Backend{Backend: b, close: sync.OnceValue(close)}, nil
}
