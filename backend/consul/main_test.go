package consul_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/elector-go/elector/internal/attempt"
	"github.com/elector-go/elector/internal/consultest"
	"github.com/elector-go/elector/internal/servertest"
)

// shared is the server of all tests that neither stop nor fill it.
var shared = servertest.Share(func() (*servertest.Consul, error) {
	// All processes of the tests have one address.
	return servertest.StartConsul(servertest.ConsulConfig{NoSync: true, Config: `limits { http_max_conns_per_client = 5000 }`})
})

func sharedServer(t *testing.T) *servertest.Consul {
	t.Helper()
	return shared.ForTest(t)
}

func TestMain(m *testing.M) {
	if os.Getenv(candidateAgent) != "" {
		fmt.Fprintln(os.Stderr, beCandidate())
		os.Exit(1)
	}
	stop := attempt.Announce(ttl, control)
	code := m.Run()
	stop()
	os.Exit(shared.Close(code))
}

// control observes the server of all tests that neither stop nor fill it.
func control(ctx context.Context, answered func(sent time.Time)) error {
	server, err := shared.Await(ctx)
	if err != nil {
		return err
	}
	return consultest.Control(server, ttl, false)(ctx, answered)
}
