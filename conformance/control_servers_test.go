package conformance_test

import (
	"errors"
	"testing"
	"time"

	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/internal/attempt"
	"github.com/elector-go/elector/internal/consultest"
	"github.com/elector-go/elector/internal/etcdtest"
	"github.com/elector-go/elector/internal/zktest"
)

// A server can be frozen, and lose its data.
type server interface {
	Pause() error
	Resume() error
	Wipe() error
	Start() error
}

// The control of each service is well while its server is; it has lost its session, or says
// that the servers stand still, when a server is frozen; and it is well again afterwards, and
// when the server has lost its data.
func TestControls(t *testing.T) {
	for name, start := range map[string]func(t *testing.T) (func(testing.TB) *conformance.Service, []server){
		"zookeeper": func(t *testing.T) (func(testing.TB) *conformance.Service, []server) {
			s := zktest.Single(t)
			return s.Service(zooKeeperTTL), []server{s.Members[0]}
		},
		"zookeeper, ensemble of 3": func(t *testing.T) (func(testing.TB) *conformance.Service, []server) {
			s := zktest.Ensemble(t)
			return s.Service(zooKeeperTTL), []server{s.Members[0], s.Members[1], s.Members[2]}
		},
		"etcd": func(t *testing.T) (func(testing.TB) *conformance.Service, []server) {
			s := etcdtest.Single(t)
			return s.Service(etcdTTL), []server{s.Members[0]}
		},
		"consul": func(t *testing.T) (func(testing.TB) *conformance.Service, []server) {
			s := consultest.Single(t)
			return s.Service(consul.MinSessionTimeout, consul.Config{}), []server{s.Members[0]}
		},
		"consul with a check": func(t *testing.T) (func(testing.TB) *conformance.Service, []server) {
			s := consultest.Single(t)
			return s.Service(consulCheck, consul.Config{Check: consulCheck}), []server{s.Members[0]}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newService, servers := start(t)
			svc := newService(t)
			env := attempt.Observe(t, svc.TTL, svc.Controls...)
			for _, server := range servers {
				becomesWell(t, env, 2*svc.TTL)
				began := time.Now()
				if err := server.Pause(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(svc.TTL * 3 / 2)
				frozen := env.Trouble(began, time.Now())
				if err := server.Resume(); err != nil {
					t.Fatal(err)
				}
				t.Log(frozen)
				if frozen == "" {
					t.Errorf("it was well while a server was frozen for %v", time.Since(began))
				}
				becomesWell(t, env, svc.TTL)
				if again := env.Trouble(began, began.Add(svc.TTL)); again == "" {
					t.Error("it has forgotten that a server was frozen")
				}
			}

			// A server without its data knows no session any more: the control has another then.
			if err := errors.Join(servers[0].Wipe(), servers[0].Start()); err != nil {
				t.Fatal(err)
			}
			becomesWell(t, env, svc.TTL)
		})
	}
}

// becomesWell waits for a stretch of time in which the environment was well.
func becomesWell(t *testing.T, env *attempt.Environment, d time.Duration) {
	t.Helper()
	for end := time.Now().Add(time.Minute + 5*d); ; {
		began := time.Now()
		time.Sleep(d)
		why := env.Trouble(began, time.Now())
		if why == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("it is never well for %v: %s", d, why)
		}
	}
}
