package compare

import (
	"context"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/services"
)

// A service is the place of one run.
type service interface {
	// Client returns the connection of one candidate.
	Client() (services.Client, error)
	// outside is a backend that is not measured. It lives as long as the service.
	outside() backend.Backend
	// figures returns the service's counts so far, without heartbeats. Without any, the error says why.
	figures(ctx context.Context) (map[string]float64, error)
	// due returns how many notices the service has for candidates, as far as it tells.
	due() int
	// rest is how long nothing may move before all counts as quiet.
	rest() time.Duration
	// files returns the number of open files of a candidate.
	files() int
	// hint names a possible obstacle to n candidates.
	hint(n int) string
	close() error
}

// open returns the service that a URL names. It does not connect.
func open(url string) (service, error) {
	if url == Embedded {
		return embedded{services.Embedded{Service: memory.New(memory.Options{})}}, nil
	}
	r := &remote{Remote: services.Remote{URL: url}}
	var err error
	if r.own, err = r.Client(); err != nil {
		return nil, err
	}
	return r, nil
}

// embedded is a memory service.
type embedded struct{ services.Embedded }

func (e embedded) outside() backend.Backend { return e.Service }
func (e embedded) close() error             { return nil }
func (e embedded) due() int                 { return e.Stats().Due }
func (e embedded) files() int               { return 0 }
func (e embedded) hint(int) string          { return "" }

// rest is short: all pending messages are known.
func (e embedded) rest() time.Duration { return 3 * time.Millisecond }

func (e embedded) figures(context.Context) (map[string]float64, error) {
	s := e.Stats()
	return map[string]float64{
		"reads":   float64(s.Gets + s.Lists + s.Predecessors),
		"waits":   float64(s.Awaits + s.AwaitLists),
		"commits": float64(s.Commits),
		"notices": float64(s.Wakeups),
	}, nil
}

// remote is a real service.
type remote struct {
	services.Remote
	own services.Client // the backend of outside
}

func (r *remote) outside() backend.Backend { return r.own.Backend }
func (r *remote) close() error             { return r.own.Close() }
func (r *remote) due() int                 { return 0 }
func (r *remote) files() int               { return 2 }

// rest is longer than a message takes within a site.
func (r *remote) rest() time.Duration { return 50 * time.Millisecond }

func (r *remote) hint(n int) string {
	switch {
	case r.Scheme() == services.ZooKeeper.Scheme && n >= 58:
		return "a ZooKeeper server takes 60 connections from one address unless its maxClientCnxns says otherwise (0: any number)"
	case r.Scheme() == services.Consul.Scheme && 3*n >= 190:
		return "a Consul agent takes 200 connections from one address unless limits.http_max_conns_per_client says otherwise; a candidate needs up to 3"
	}
	return ""
}
