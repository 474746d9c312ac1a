package simulate

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/conformance"
)

// The model keeps the contract of backends, as far as there are no faults in it.
func TestConformance(t *testing.T) {
	none := "the simulation has no faults"
	conformance.TestBackend(t, func(testing.TB) *conformance.Service {
		server := newServer(context.Background(), rand.New(rand.NewPCG(1, 1)))
		server.use(plain)
		service := memory.New(memory.Options{})
		clients := 0
		why := map[string]string{"MaxOps": "there is no limit", "MaxBytes": "there is no limit", "UseUp": "there is no end to the numbers", "Delete": "there is no operator", "Put": "there is no other writer", "Watches": "a watch stays until it fires", "await/snapshot": "an answer may overtake the notice of an earlier change", "Stored": "the service is memory, which is tried by itself"}
		for _, field := range []string{"Stop", "Start", "ClientAt", "StopMember", "StartMember", "PauseMember", "ResumeMember", "CutOffMember", "MendMember", "Members", "Suspend", "Resume", "Expire", "Kill", "LoseReply", "CutReply", "LoseRequest", "DelayRequest", "HoldWakeups", "Throttle", "Deny", "SlowReplies", "HoldRequests"} {
			why[field] = none
		}
		return &conformance.Service{
			Name: "simulation", Root: "/conformance", TTL: 10 * time.Second, Virtual: true,
			Client: func(testing.TB) *conformance.Client {
				clients++
				return &conformance.Client{Backend: &process{Client: service.Client("process"), server: server, number: clients}}
			},
			Why: why,
		}
	})
}
