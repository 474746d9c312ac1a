//go:build unix

package servertest

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/internal/wait"
)

func (c *Consul) put(key string) error {
	return c.ask(wait.Patience, http.MethodPut, "/v1/kv/"+key, "x", nil)
}

func (c *Consul) has(key string) (bool, error) {
	err := c.ask(wait.Patience, http.MethodGet, "/v1/kv/"+key+"?consistent", "", nil)
	if err != nil && strings.Contains(err.Error(), "404 Not Found") {
		return false, nil
	}
	return err == nil, err
}

func TestConsulAgentAndACL(t *testing.T) {
	Long(t, "two servers")
	server := ConsulForTest(t, ConsulConfig{NoSync: true, ACL: true, Config: `session_ttl_min = "1s"`})
	agent := ConsulAgentForTest(t, []*Consul{server}, ConsulConfig{NoSync: true})
	if server.Token() == "" || agent.Token() != server.Token() {
		t.Fatalf("tokens %q and %q", server.Token(), agent.Token())
	}
	require.NoError(t, agent.ask(wait.Patience, http.MethodPut, "/v1/session/create", `{"TTL":"1s"}`, nil))
	require.NoError(t, agent.put("shared"))
	checkHas(t, server, "shared", true)
	require.NoError(t, agent.Wipe())
	require.NoError(t, agent.Start())
	checkHas(t, agent, "shared", true)

	stranger := &Consul{Server: server.Server}
	if err := stranger.put("secret"); !errors.Is(err, ErrNotServing) || !strings.Contains(err.Error(), "403") {
		t.Fatalf("without a token: %v", err)
	}
}
