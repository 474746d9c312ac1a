package compare

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/dial"
	"github.com/elector-go/elector/backend/memory"
)

// A service is where one run takes place.
type service interface {
	// seat makes what one candidate sits on.
	seat() (seat, error)
	// outside is a backend that is part of no measurement. It lives as long as the
	// service.
	outside() backend.Backend
	// figures are what the service has counted so far, but for heartbeats. Without any,
	// the error says why.
	figures(ctx context.Context) (map[string]float64, error)
	// rest is how long nothing may move before all is taken to be still.
	rest() time.Duration
	// hint says what may be in the way of n candidates.
	hint(n int) string
	close() error
}

// A seat is one candidate's way to the service.
type seat struct {
	backend backend.Backend
	half    time.Duration // of a simulated round trip
	cut     func()        // silences the candidate, without a goodbye
	mend    func()        // ends cut
	close   func() error  // gives the connections up, when the candidate has closed
}

// open returns the service that a URL names. It does not connect.
func open(ctx context.Context, url string, c Config) (service, error) {
	if url == Embedded {
		return &embedded{service: memory.New(memory.Options{}), half: c.Delay / 2}, nil
	}
	r := &remote{url: url, ctx: context.WithoutCancel(ctx)}
	b, err := dial.Open(ctx, url, dial.WithDialContext(r.line().dial))
	if err != nil {
		return nil, err
	}
	r.own = b
	return r, nil
}

// embedded is a memory service.
type embedded struct {
	service *memory.Service
	half    time.Duration
}

func (e *embedded) seat() (seat, error) {
	client := e.service.Client("candidate")
	return seat{backend: client, half: e.half, cut: client.Suspend, mend: client.Resume, close: func() error { return nil }}, nil
}

func (e *embedded) outside() backend.Backend { return e.service }
func (e *embedded) close() error             { return nil }
func (e *embedded) hint(int) string          { return "" }

// rest is short: all messages that are on their way are known.
func (e *embedded) rest() time.Duration { return 3 * time.Millisecond }

func (e *embedded) figures(context.Context) (map[string]float64, error) {
	s := e.service.Stats()
	return map[string]float64{
		"reads":   float64(s.Gets + s.Lists + s.Predecessors),
		"waits":   float64(s.Awaits + s.AwaitLists),
		"commits": float64(s.Commits),
		"notices": float64(s.Wakeups),
	}, nil
}

// remote is a real service.
type remote struct {
	url string
	own *dial.Backend
	ctx context.Context

	beats atomic.Int64 // heartbeats of all clients, of ZooKeeper's alone
}

func (r *remote) line() *line {
	if r.scheme() == "zk" {
		return &line{beats: &r.beats}
	}
	return new(line)
}

func (r *remote) seat() (seat, error) {
	l := r.line()
	b, err := dial.Open(r.ctx, r.url, dial.WithDialContext(l.dial))
	if err != nil {
		return seat{}, err
	}
	return seat{backend: b, cut: l.cut, mend: l.mend, close: b.Close}, nil
}

func (r *remote) outside() backend.Backend { return r.own }

// close takes the client's word for its own context's end, which etcd's reports.
func (r *remote) close() error {
	if err := r.own.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// rest is longer than a message is on its way within a site.
func (r *remote) rest() time.Duration { return 50 * time.Millisecond }

func (r *remote) scheme() string {
	scheme, _, _ := strings.Cut(r.url, "://")
	return scheme
}

func (r *remote) hint(n int) string {
	switch {
	case r.scheme() == "zk" && n >= 58:
		return "a ZooKeeper server takes 60 connections from one address unless its maxClientCnxns says otherwise (0: any number)"
	case r.scheme() == "consul" && 3*n >= 190:
		return "a Consul agent takes 200 connections from one address unless limits.http_max_conns_per_client says otherwise; a candidate needs up to 3"
	}
	return ""
}
