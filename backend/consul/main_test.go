package consul_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/elector-go/elector/internal/attempt"
	"github.com/elector-go/elector/internal/consultest"
	"github.com/elector-go/elector/internal/servertest"
)

// shared is the server of all tests that neither stop nor fill it.
var shared = sync.OnceValues(func() (*servertest.Consul, error) {
	// All processes of the tests have one address.
	defer close(used)
	return servertest.StartConsul(servertest.ConsulConfig{NoSync: true, Config: `limits { http_max_conns_per_client = 5000 }`})
})

// used is closed when a test has used the shared server.
var used = make(chan struct{})

func sharedServer(t *testing.T) *servertest.Consul {
	t.Helper()
	server, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return server
}

func TestMain(m *testing.M) {
	if os.Getenv(candidateAgent) != "" {
		fmt.Fprintln(os.Stderr, beCandidate())
		os.Exit(1)
	}
	stop := attempt.Announce(ttl, control)
	code := m.Run()
	stop()
	select {
	case <-used:
		if server, err := shared(); err == nil {
			if err := server.Close(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = max(code, 1)
			}
		}
	default:
	}
	os.Exit(code)
}

// control observes the server of all tests that neither stop nor fill it.
func control(ctx context.Context, answered func(sent time.Time)) error {
	select {
	case <-used:
	case <-ctx.Done():
		return ctx.Err()
	}
	server, err := shared()
	if err != nil {
		return err
	}
	return consultest.Control(server, ttl, false)(ctx, answered)
}
