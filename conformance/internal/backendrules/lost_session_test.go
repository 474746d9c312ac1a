package backendrules

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/conformance/internal/judge"
	"github.com/elector-go/elector/conformance/kit"
)

const ttl = 4 * time.Second // of sessions on fake time

// A slowness is how long things take at each try.
type slowness struct {
	start  []time.Duration // Start, which brings the service back after a failure, too
	cut    []time.Duration // Resume, before the link is there
	beyond bool            // the backend is back only when its window has passed
	gone   bool            // the sessions are gone when it is back
}

// service returns a memory service on real terms, for a test in a bubble.
func (s slowness) service() func(testing.TB) *kit.Service {
	next := func(of *[]time.Duration) (d time.Duration) {
		if len(*of) > 0 {
			d, *of = (*of)[0], (*of)[1:]
		}
		return d
	}
	return func(testing.TB) *kit.Service {
		svc := memory.New(memory.Options{})
		var clients []*memory.Client
		away := func(c *memory.Client) {
			if s.beyond {
				c.Suspend()
				time.AfterFunc(2*ttl, c.Resume)
			}
			if s.gone {
				c.Expire() // it hears of it when it is back
			}
		}
		return &kit.Service{
			Name: "memory that is slow", Root: "/conformance", TTL: ttl,
			Client: func(testing.TB) *kit.Client {
				c := svc.Client("a process")
				clients = append(clients, c)
				return &kit.Client{
					Backend: c,
					Suspend: func() { c.Suspend(); away(c) },
					Resume: func() {
						time.Sleep(next(&s.cut))
						if !s.beyond {
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
			Start: func() error {
				time.Sleep(next(&s.start))
				svc.Start()
				return nil
			},
		}
	}
}

// A session that was lost is excused only if the rule itself has seen that the service, or the
// link, was back too late; and never for good.
func TestLostSessionIsNoExcuse(t *testing.T) {
	const long, almost = ttl * 3 / 2, ttl * 13 / 16 // to be back less than a quarter before the deadline
	restart := rule{Name: "service/restart", Need: []string{"Stop"}, Run: serviceRestart}
	briefly := rule{Name: "session/suspended-briefly", Need: []string{"Suspend"}, Run: sessionSuspendedBriefly}
	for _, test := range []struct {
		what  string
		rule  rule
		slow  slowness
		tries int
		void  int
		fails bool
	}{
		{"a sound backend", restart, slowness{}, 1, 0, false},
		{"never rides out a restart", restart, slowness{beyond: true}, 1, 0, true},
		{"is late, and loses its sessions before their deadline", restart, slowness{gone: true, start: []time.Duration{almost}}, 1, 0, true},
		{"one restart takes long", restart, slowness{start: []time.Duration{long}}, 2, 1, false},
		{"each restart takes long", restart, slowness{start: slices.Repeat([]time.Duration{long}, 6)}, 3, 3, true},
		{"a sound backend", briefly, slowness{}, 1, 0, false},
		{"never rides out a cut", briefly, slowness{beyond: true}, 1, 0, true},
		{"is late, and loses its sessions before their deadline", briefly, slowness{gone: true, cut: []time.Duration{almost - ttl/4}}, 1, 0, true},
		{"one cut takes long", briefly, slowness{cut: []time.Duration{long}}, 2, 1, false},
		{"each cut takes long", briefly, slowness{cut: slices.Repeat([]time.Duration{long}, 3)}, 3, 3, true},
		{"a cut takes half of the timeout, and is ridden out", briefly, slowness{cut: []time.Duration{ttl * 3 / 8}}, 1, 0, false},
	} {
		t.Run(test.rule.Name+", "+test.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := suite(test.slow.service(), nil)
				j := judge.Attempts(t, func(t testing.TB) {
					if why, _ := s.Attempt(t, test.rule); why != "" {
						t.Errorf("not applicable: %s", why)
					}
				})
				if j.Tries != test.tries || len(j.Void) != test.void || j.Failed != test.fails {
					t.Errorf("%+v, want %d tries, %d void, failed %v", j, test.tries, test.void, test.fails)
				}
				for _, why := range j.Void {
					if !strings.Contains(why, "before the session's deadline") && !strings.Contains(why, "after the session's deadline") {
						t.Errorf("void, as %s", why)
					}
				}
				time.Sleep(time.Minute) // what is on its way
			})
		})
	}
}
