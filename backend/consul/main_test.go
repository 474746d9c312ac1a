package consul_test

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/internal/consultest"
	"github.com/elector-go/elector/internal/servertest"
)

// shared is the server of all tests that neither stop nor fill it.
var shared = servertest.Share(func() (*servertest.Consul, error) {
	// All processes of the tests have one address.
	return servertest.StartConsul(servertest.ConsulConfig{NoSync: true, Config: `limits { http_max_conns_per_client = 5000 }`})
})

// withACL is the server of all tests of tokens. It accepts no sessions that are shorter than theirs.
var withACL = servertest.Share(func() (*servertest.Consul, error) {
	server, err := servertest.StartConsul(servertest.ConsulConfig{NoSync: true, ACL: true, Config: fmt.Sprintf("session_ttl_min = %q", aclTTL)})
	if err != nil {
		return nil, err
	}
	user, err := consultest.Operator(server)
	if err == nil { // then tokens need no right to it
		_, err = user.Catalog().Register(&api.CatalogRegistration{Node: consul.SessionNode, Address: "127.0.0.1"}, nil)
	}
	if err != nil {
		return nil, errors.Join(err, server.Close())
	}
	return server, nil
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
	os.Exit(servertest.Main(m))
}
