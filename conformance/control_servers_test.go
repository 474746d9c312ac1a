package conformance_test

import (
	"errors"
	"strings"
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
// that the servers stand still, when the server is frozen; and it is well again afterwards.
// It loses its session when the server loses its data.
func TestControls(t *testing.T) {
	for name, start := range map[string]func(t *testing.T) (func(testing.TB) *conformance.Service, server){
		"zookeeper": func(t *testing.T) (func(testing.TB) *conformance.Service, server) {
			s := zktest.Single(t)
			return s.Service(zooKeeperTTL), s.Members[0]
		},
		"etcd": func(t *testing.T) (func(testing.TB) *conformance.Service, server) {
			s := etcdtest.Single(t)
			return s.Service(etcdTTL), s.Members[0]
		},
		"consul": func(t *testing.T) (func(testing.TB) *conformance.Service, server) {
			s := consultest.Single(t)
			return s.Service(consul.MinSessionTimeout, consul.Config{}), s.Members[0]
		},
		"consul with a check": func(t *testing.T) (func(testing.TB) *conformance.Service, server) {
			s := consultest.Single(t)
			return s.Service(consulCheck, consul.Config{Check: consulCheck}), s.Members[0]
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newService, server := start(t)
			svc := newService(t)
			env := attempt.Observe(t, svc.TTL, svc.Control)
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
				t.Errorf("it was well while its server was frozen for %v", time.Since(began))
			}
			becomesWell(t, env, svc.TTL)
			if again := env.Trouble(began, began.Add(svc.TTL)); again == "" {
				t.Error("it has forgotten that its server was frozen")
			}

			// A server without its data knows no session any more.
			began = time.Now()
			if err := errors.Join(server.Wipe(), server.Start()); err != nil {
				t.Fatal(err)
			}
			becomesWell(t, env, svc.TTL)
			if why := env.Trouble(began, time.Now()); !strings.Contains(why, "lost its session") {
				t.Errorf("its session is gone, and it says %q", why)
			}
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
