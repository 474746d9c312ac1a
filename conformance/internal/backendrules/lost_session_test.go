package backendrules

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/conformance/internal/judge"
	"github.com/elector-go/elector/conformance/kit"
)

const ttl = 4 * time.Second // of sessions on fake time

// A defect is how a backend loses its sessions when the service, or its link, was away.
type defect struct {
	beyond bool // it is back only after its window has passed
	gone   bool // its sessions are gone when it is back
}

// service returns a memory service that is not Virtual, for a test in a bubble.
func (d defect) service() func(testing.TB) *kit.Service {
	return func(testing.TB) *kit.Service {
		svc := memory.New(memory.Options{})
		var clients []*memory.Client
		away := func(c *memory.Client) {
			if d.beyond {
				c.Suspend()
				time.AfterFunc(2*3*ttl, c.Resume)
			}
			if d.gone {
				c.Expire() // the process hears of it when it is back
			}
		}
		return &kit.Service{
			Name: "memory", Root: "/conformance", TTL: ttl,
			Client: func(testing.TB) *kit.Client {
				c := svc.Client("a process")
				clients = append(clients, c)
				return &kit.Client{
					Backend: c,
					Suspend: func() { c.Suspend(); away(c) },
					Resume: func() {
						if !d.beyond {
							c.Resume()
						}
					},
				}
			},
			Stop: func() error {
				svc.Stop()
				for _, c := range clients {
					away(c)
				}
				return nil
			},
			Start: func() error { svc.Start(); return nil },
		}
	}
}

// A backend that loses its session at a restart, or when the link is cut for a moment, fails the rule.
func TestLostSessionIsFound(t *testing.T) {
	for _, r := range []rule{
		{Name: "service/restart", Need: []string{"Stop"}, Run: serviceRestart},
		{Name: "session/suspended-briefly", Need: []string{"Suspend"}, Run: sessionSuspendedBriefly},
	} {
		for what, d := range map[string]defect{
			"a sound backend":             {},
			"never rides it out":          {beyond: true},
			"its session is gone by then": {gone: true},
		} {
			t.Run(r.Name+", "+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					failed := judge.Fails(t, func(t testing.TB) {
						if why, _ := suite(d.service(), nil).Attempt(t, r); why != "" {
							t.Errorf("not applicable: %s", why)
						}
					})
					if want := d != (defect{}); failed != want {
						t.Errorf("failed: %v, want %v", failed, want)
					}
					time.Sleep(time.Minute) // lets what is on its way arrive
				})
			})
		}
	}
}
