package dial

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/asynclog"
)

// A Backend is an opened backend, with what Open made for it. It is a backend.Backend itself. It is safe
// for concurrent use.
type Backend struct {
	backend.Backend
	close func() error
}

// Close releases what Open made: the service's client, with its connections. The caller of Open
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
type Option func(*Target)

// WithLogger makes the backend and the service's client log to log, the client at debug level. By default
// nothing is logged.
func WithLogger(log *slog.Logger) Option { return func(t *Target) { t.Logger = log } }

// WithDialContext makes dial open all connections to the service, for example to break them in a test. TLS,
// if it is used, is spoken on the connections that dial returns. mem:// has none.
func WithDialContext(dial DialContext) Option { return func(t *Target) { t.DialContext = dial } }

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
	for _, set := range opts {
		set(t)
	}
	t.Logger = asynclog.New(t.Logger)
	b, close, err := t.scheme.Open(t)
	if err != nil {
		return nil, fmt.Errorf("dial %s://: %w", t.scheme.Name, err)
	}
	return &Backend{Backend: b, close: sync.OnceValue(close)}, nil
}
