package conformance

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/attempt"
	"github.com/elector-go/elector/strategy/fair"
)

// A judgement is what has become of a rule.
type judgement struct {
	tries   int
	failed  bool
	void    []string
	reasons []string // why it is not applicable, of each try
}

// judge tries a rule in attempts, in an environment that is well, and lets it fail.
func judge(t testing.TB, try func(t testing.TB) (reason string)) (j judgement) {
	done := false
	// The outer attempt is void and ends well, whatever becomes of what is tried in it.
	attempt.Run(t, unwell{}, func(t testing.TB) {
		if done {
			return
		}
		done = true
		defer func() {
			j.failed = t.Failed()
			t.Fail()
		}()
		j.void = attempt.Run(t, healthy{}, func(t testing.TB) {
			j.tries++
			if why := try(t); why != "" {
				j.reasons = append(j.reasons, why)
			}
		})
	})
	return j
}

// healthy is an environment that excuses nothing.
type healthy struct{}

func (healthy) Trouble(time.Time, time.Time) string { return "" }
func (healthy) Latest(time.Time, time.Time) string  { return "" }
func (healthy) Settle() string                      { return "" }

// ruleNamed returns one of the backends' rules.
func ruleNamed(t testing.TB, name string, of []rule) rule {
	i := slices.IndexFunc(of, func(r rule) bool { return r.name == name })
	if i < 0 {
		t.Fatalf("there is no rule %s", name)
	}
	return of[i]
}

const ttl = 4 * time.Second // of sessions on fake time

// A slowness is how long things take at each try.
type slowness struct {
	start  []time.Duration // Start, which brings the service back after a failure, too
	cut    []time.Duration // Resume, before the link is there
	beyond bool            // the backend is back only when its window has passed
	gone   bool            // the sessions are gone when it is back
}

// service returns a memory service on real terms, for a test in a bubble.
func (s slowness) service() func(testing.TB) *Service {
	next := func(of *[]time.Duration) (d time.Duration) {
		if len(*of) > 0 {
			d, *of = (*of)[0], (*of)[1:]
		}
		return d
	}
	return func(testing.TB) *Service {
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
		return &Service{
			Name: "memory that is slow", Root: "/conformance", TTL: ttl,
			Client: func(testing.TB) *Client {
				c := svc.Client("a process")
				clients = append(clients, c)
				return &Client{
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
	restart := ruleNamed(t, "service/restart", serviceRules())
	briefly := ruleNamed(t, "session/suspended-briefly", suspendRules())
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
		t.Run(test.rule.name+", "+test.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				newService := test.slow.service()
				j := judge(t, func(t testing.TB) string { return try(t, newService, test.rule) })
				if j.tries != test.tries || len(j.void) != test.void || j.failed != test.fails || j.reasons != nil {
					t.Errorf("%+v, want %d tries, %d void, failed %v", j, test.tries, test.void, test.fails)
				}
				for _, why := range j.void {
					if !strings.Contains(why, "before the session's deadline") && !strings.Contains(why, "after the session's deadline") {
						t.Errorf("void, as %s", why)
					}
				}
				time.Sleep(time.Minute) // what is on its way
			})
		})
	}
}

// A closer counts how often it is closed.
type closer struct {
	elector.Elector
	closed *atomic.Int64
}

func (c closer) Close(context.Context) error { c.closed.Add(1); return nil }

// endsOf are the ways of a rule to end without having passed.
var endsOf = map[string]func(t testing.TB){
	"fails":   func(t testing.TB) { t.Fatal("x") },
	"panics":  func(testing.TB) { panic("boom") },
	"exits":   func(testing.TB) { runtime.Goexit() },
	"is void": func(t testing.TB) { attempt.Void(t, "by itself") },
	"skips":   func(t testing.TB) { t.SkipNow() },
}

// What a rule has taken away is brought back, however the rule ends.
func TestServiceIsBroughtBack(t *testing.T) {
	for name, end := range endsOf {
		for _, suite := range []string{"backend", "election"} {
			t.Run(suite+" "+name, func(t *testing.T) {
				up := true
				var closed atomic.Int64
				newService := func(testing.TB) *Service {
					return &Service{
						Name: "x", Root: "/x", TTL: time.Second, Client: func(testing.TB) *Client { return &Client{} },
						Stop: func() error { up = false; return nil }, Start: func() error { up = true; return nil },
					}
				}
				need := []string{"Stop"}
				j := judge(t, func(t testing.TB) string {
					if suite == "backend" {
						return try(t, newService, rule{name: "x", need: need, run: func(r *run) { _ = r.svc.Stop(); end(t) }})
					}
					runElectionRule(t, ElectionConfig{Service: newService, Strategy: fair.New()}, electionRule{name: "x", need: need, run: func(a *arena) {
						a.candidates = append(a.candidates, &candidate{a: a, client: &Client{}, real: closer{closed: &closed}})
						a.in("a state", func(a *arena) {
							a.candidates = append(a.candidates, &candidate{a: a, client: &Client{}, real: closer{closed: &closed}})
							_ = a.svc.Stop()
							end(t)
						})
					}})
					return ""
				})
				if !up {
					t.Errorf("the service is away; %+v", j)
				}
				if want := int64(2 * j.tries); suite == "election" && closed.Load() != want {
					t.Errorf("%d candidates were closed, want %d", closed.Load(), want)
				}
			})
		}
	}
}

// A rule that has passed leaves the service alone, and one whose service cannot be brought
// back has failed.
func TestBringingBack(t *testing.T) {
	starts := 0
	cannot := errors.New("it is on fire")
	newService := func(testing.TB) *Service {
		return &Service{
			Name: "x", TTL: time.Second, Client: func(testing.TB) *Client { return &Client{} },
			Stop: func() error { return nil }, Start: func() error { starts++; return cannot },
		}
	}
	passes := rule{name: "x", need: []string{"Stop"}, run: func(*run) {}}
	if j := judge(t, func(t testing.TB) string { return try(t, newService, passes) }); j.failed || starts != 0 {
		t.Errorf("%+v, started %d times", j, starts)
	}
	skips := rule{name: "x", need: []string{"Stop"}, run: func(r *run) { r.t.SkipNow() }}
	if j := judge(t, func(t testing.TB) string { return try(t, newService, skips) }); !j.failed || starts != 1 {
		t.Errorf("%+v, started %d times", j, starts)
	}
}

// An attempt that was void does not use up what is allowed to few states.
func TestAllowance(t *testing.T) {
	l := allowance{most: 2}
	use := func(state string, want bool) {
		t.Helper()
		if got := l.use(state); got != want {
			t.Errorf("%s may: %v, want %v", state, got, want)
		}
	}
	l.begins("one")
	use("one", true)
	use("one", true) // it counts once
	for range attempt.Most {
		l.begins("two")
		use("two", true)
	}
	l.begins("three")
	use("three", false)
	l.begins("two") // its last attempt does without
	use("three", true)
	use("two", false)
	use("one", true)
}
