package dial_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/certtest"
	"github.com/elector-go/elector/internal/consultest"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
)

// The rules in docs/settings.md for the elections below jobs, and for sessions without and with check=.
const (
	consulKeys = `
key "jobs"             { policy = "write" }
key_prefix "jobs/"     { policy = "write" }
key_prefix ".elector/" { policy = "write" }
`
	consulRules = consulKeys + `
session "elector-sessions" { policy = "write" }
node "elector-sessions"    { policy = "write" }
`
	consulCheckRules = consulKeys + `
session_prefix ""      { policy = "write" }
service "elector"      { policy = "write" }
`
)

func TestConsulToken(t *testing.T) {
	server := guarded.ForTest(t)
	operator := must.Get(consultest.Operator(server))(t)
	tokenFor := func(name, rules string) *api.ACLToken {
		t.Helper()
		_, _, err := operator.ACL().PolicyCreate(&api.ACLPolicy{Name: name, Rules: rules}, nil)
		require.NoError(t, err)
		token, _, err := operator.ACL().TokenCreate(&api.ACLToken{Policies: []*api.ACLTokenPolicyLink{{Name: name}}}, nil)
		require.NoError(t, err)
		return token
	}
	plain, token := tokenFor("jobs", consulRules), tokenFor("checked-jobs", consulCheckRules)
	url := "consul://" + server.Addr()

	_, err := refusal(t, url+"?check=2s") // a longer check reports it late
	assert.ErrorIs(t, err, backend.ErrDenied)
	assert.ErrorContains(t, err, "Permission denied")

	t.Setenv("CONSUL_HTTP_TOKEN", "00000000-1111-2222-3333-444444444444")
	_, err = refusal(t, url+"?check=2s")
	assert.ErrorIs(t, err, backend.ErrDenied)
	assert.NotContains(t, err.Error(), "00000000-1111")

	t.Setenv("CONSUL_HTTP_TOKEN", "")
	t.Setenv("CONSUL_HTTP_TOKEN_FILE", file(t, plain.SecretID+"\n"))
	assert.ErrorIs(t, must.Err(refusal(t, url+"?check=2s")), backend.ErrDenied)
	before, _ := lead(t, url, "/jobs/one")
	require.NoError(t, before.Resign(t.Context()))
	t.Setenv("CONSUL_HTTP_TOKEN_FILE", file(t, token.SecretID+"\n"))
	term, said := lead(t, url+"?check=10s", "/jobs/one")
	assert.ErrorIs(t, must.Err(term.Commit(t.Context(), elector.Put("/elsewhere", nil))), backend.ErrDenied)

	t.Run("revoked while it leads, and while another waits", func(t *testing.T) {
		servertest.Long(t, "the time in which it is noticed")
		heir := stand(t, open(t, url+"?check=10s"), "/jobs/one", elector.Hooks{})
		next := wait.Later(func() (*elector.Term, error) { return heir.Campaign(t.Context()) })
		require.Eventually(t, func() bool {
			all, err := heir.Candidates(t.Context())
			return err == nil && len(all) == 2
		}, wait.Patience, 50*time.Millisecond)
		must.Get(operator.ACL().TokenDelete(token.AccessorID, nil))(t)
		wait.Receive(t, "the term ends", term.Context().Done())
		fmt.Fprintln(said, context.Cause(term.Context()))
		assert.True(t, said.Has("ACL not found"))
		assert.False(t, said.Has(token.SecretID))
		err = wait.Receive(t, "the campaign with the revoked token ends", next).Err
		assert.ErrorIs(t, err, backend.ErrDenied)
		assert.NotContains(t, err.Error(), token.SecretID)
	})
}

func TestConsulCertificates(t *testing.T) {
	url, _ := certificates(t, "CONSUL_CACERT", "CONSUL_CLIENT_CERT", "CONSUL_CLIENT_KEY", func(files certtest.Files, _ bool) string {
		at := port(t)
		servertest.ConsulForTest(t, servertest.ConsulConfig{NoSync: true, Config: fmt.Sprintf(
			`ports { https = %d } tls { https { ca_file = %q, cert_file = %q, key_file = %q, verify_incoming = true } }`, at, files.CA, files.Cert, files.Key)})
		return fmt.Sprintf("consul://127.0.0.1:%d?timeout=30s", at)
	})
	fails(t, url, "HTTP request to an HTTPS server", "CONSUL_HTTP_SSL", "false")
}
