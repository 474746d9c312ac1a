package consul_test

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/elector-go/elector/internal/servertest"
)

// shared is the server of all tests that neither stop nor fill it.
var shared = sync.OnceValues(func() (*servertest.Consul, error) {
	// All processes of the tests have one address.
	server, err := servertest.StartConsul(servertest.ConsulConfig{NoSync: true, Config: `limits { http_max_conns_per_client = 5000 }`})
	closeShared = server
	return server, err
})

var closeShared *servertest.Consul

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
	code := m.Run()
	if closeShared != nil {
		if err := closeShared.Close(); err != nil && code == 0 {
			code = 1
		}
	}
	os.Exit(code)
}
