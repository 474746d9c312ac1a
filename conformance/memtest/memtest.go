// Package memtest makes the memory backend into a service for the suites of package conformance.
package memtest

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/backend/meter"
	"github.com/elector-go/elector/conformance"
)

// The limits of a commit. They are those of real services, and no rule reaches them by accident.
const (
	MaxOps   = 128
	MaxBytes = 1 << 20
)

// longAtWork is a revision that a float64 cannot hold exactly, as ZooKeeper's may be.
const longAtWork = 1<<53 + 1

// Service returns a function that makes an empty service, for sessions with this timeout. Nothing takes
// time there except what a rule delays.
func Service(ttl time.Duration) func(testing.TB) *conformance.Service {
	return func(testing.TB) *conformance.Service {
		return newService(ttl, memory.New(memory.Options{MaxOps: MaxOps, MaxBytes: MaxBytes, Revision: longAtWork}))
	}
}

// Late is Service with random delays like those of a real one. Messages take time, a few of them long. A
// process notices late that its link is dead, and last of all that its session has ended. Sessions are
// opened at a server that does not know the latest commits.
func Late(ttl time.Duration) func(testing.TB) *conformance.Service {
	return func(testing.TB) *conformance.Service {
		var service *memory.Service
		service = memory.New(memory.Options{
			MaxOps: MaxOps, MaxBytes: MaxBytes,
			Latency: func() time.Duration {
				if rand.N(16) == 0 {
					return rand.N(ttl / 300)
				}
				return rand.N(ttl / 10000)
			},
			Detect: ttl / 20,
			Intercept: func(s memory.Step) {
				if s.Kind == memory.StepCommit && rand.N(4) == 0 {
					time.AfterFunc(rand.N(ttl/20), service.Lag())
				}
			},
		})
		svc := newService(ttl, service)
		svc.Name += ", late messages"
		svc.Slow = ttl / 10
		own := svc.Client
		svc.Client = func(t testing.TB) *conformance.Client {
			c := own(t)
			c.Expire = c.Backend.(*memory.Client).Revoke
			return c
		}
		return svc
	}
}

func newService(ttl time.Duration, svc *memory.Service) *conformance.Service {
	clients := 0
	return &conformance.Service{
		Name:    "memory",
		Root:    "/conformance",
		TTL:     ttl,
		Virtual: true,
		Client: func(testing.TB) *conformance.Client {
			clients++
			return client(svc.Client(fmt.Sprintf("process %d", clients)))
		},
		Delete: func(key string) error { svc.Delete(key); return nil },
		Put:    svc.Put,
		UseUp:  func(dir string, left int) error { svc.UseUp(dir, left); return nil },
		Stop:   func() error { svc.Stop(); return nil },
		Start:  func() error { svc.Start(); return nil },
		Why: map[string]string{
			"StopMember": "the service is one", "PauseMember": "the service is one", "CutOffMember": "the service is one",
			"session/close-cut": "Close does not wait for a link",
			"SlowReplies":       "heartbeats take no time", "HoldRequests": "requests take no time",
		},
		Watches: func() (int, error) { return svc.Stats().Watches, nil },
		Stored: func() (keys, bytes int, err error) {
			keys, bytes = stored(svc, "/")
			return keys, bytes, nil
		},

		MaxOps:   MaxOps,
		MaxBytes: MaxBytes,
	}
}

// stored counts the keys and bytes below dir.
func stored(svc *memory.Service, dir string) (keys, bytes int) {
	for _, e := range svc.Entries(dir) {
		below, size := stored(svc, e.Key)
		keys += 1 + below
		bytes += len(e.Key) + len(e.Value) + size
	}
	return keys, bytes
}

func client(c *memory.Client) *conformance.Client {
	return &conformance.Client{
		Backend:     c,
		Suspend:     c.Suspend,
		Resume:      c.Resume,
		Expire:      c.Expire,
		Kill:        c.Kill,
		LoseReply:   func(kind backend.OpKind) { c.LoseReply(memory.Kind(kind)) },
		CutReply:    func(kind backend.OpKind) { c.CutReply(memory.Kind(kind)) },
		LoseRequest: func(kind backend.OpKind) { c.LoseRequest(memory.Kind(kind)) },
		DelayRequest: func(kind backend.OpKind, d time.Duration) (sent func() bool) {
			var met atomic.Bool
			c.DelayRequest(func(ops []backend.Op) bool {
				if memory.Kind(kind)(ops) {
					met.Store(true)
				}
				return met.Load()
			}, d)
			return met.Load
		},
		Throttle:    c.Throttle,
		Deny:        c.Deny,
		HoldWakeups: c.HoldWakeups,
	}
}

// Shared makes the sessions of each client shares of one session.
func Shared(newService func(testing.TB) *conformance.Service) func(testing.TB) *conformance.Service {
	return wrapped(newService, "shared session", func(svc *conformance.Service, b backend.Backend) backend.Backend {
		return backend.Share(b, svc.TTL)
	})
}

// Metered counts the operations of each client.
func Metered(newService func(testing.TB) *conformance.Service) func(testing.TB) *conformance.Service {
	return wrapped(newService, "metered", func(_ *conformance.Service, b backend.Backend) backend.Backend {
		return meter.New(b, nil)
	})
}

func wrapped(newService func(testing.TB) *conformance.Service, name string, wrap func(*conformance.Service, backend.Backend) backend.Backend) func(testing.TB) *conformance.Service {
	return func(t testing.TB) *conformance.Service {
		svc := newService(t)
		svc.Name += ", " + name
		own := svc.Client
		svc.Client = func(t testing.TB) *conformance.Client {
			c := own(t)
			c.Backend = wrap(svc, c.Backend)
			return c
		}
		return svc
	}
}
