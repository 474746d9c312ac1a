package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/cmd/elector/internal/standtest"
	"github.com/elector-go/elector/inspect"
	"github.com/elector-go/elector/internal/loopback"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/services"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy"
	"github.com/elector-go/elector/strategy/fair"
)

// standBy makes a candidate stand with a strategy until the test ends.
func standBy(t *testing.T, url, election, id, value string, strategy strategy.Strategy) {
	t.Cleanup(standtest.Stand(t, url, election, id, value, strategy))
}

// stand makes a candidate stand until stop, and returns when it leads or waits.
func stand(t *testing.T, url, election, id, value string) (stop func()) {
	return standtest.Stand(t, url, election, id, value, fair.Strategy{})
}

// etcd is a server that the tests share.
var etcd = servertest.Share(func() (*servertest.Etcd, error) {
	return servertest.StartEtcd(servertest.EtcdConfig{NoSync: true})
})

func TestLook(t *testing.T) {
	services.OnEach(t, func(t *testing.T, s services.Service) {
		if s.Name != services.Etcd.Name {
			servertest.Long(t, "several services")
		}
		looks(t, s.URL(s.ForTest(t).Addr(), time.Minute))
	})
}

func looks(t *testing.T, url string) {
	t.Setenv(urlVariable, url)
	stopFirst := stand(t, url, "/jobs/reindex", "host-1", "\x1b[31m")
	stopSecond := stand(t, url, "/jobs/reindex", "主機", "")

	out, _ := run(t, OK, "status", "/jobs/reindex", "--timeout", "1m")
	assert.Regexp(t, `(?m)^election  /jobs/reindex\nstrategy  fair\nleader    host-1\nvalue     "\\x1b\[31m"\ntoken     \d+\nsession   \S+\n$`, out)

	out, _ = run(t, OK, "candidates", url, "/jobs/reindex", "--timeout", "1m")
	assert.Regexp(t, `^PLACE  ID      LEADS  RANK  SINCE  SESSION +VALUE\n`+
		`1      host-1  leads  -     -      \S+ +"\\x1b\[31m"\n2      主機    -      -     -      \S+ +-\n$`, out)

	out, _ = run(t, OK, "ls", "--timeout", "1m")
	assert.Equal(t, "ELECTION       STRATEGY  STAND  LEADER\n/jobs/reindex  fair      2      host-1\n", out)

	out, errs := run(t, NoElection, "status", "/jobs/reindx", "--timeout", "1m")
	assert.Empty(t, out)
	assert.Contains(t, errs, "Did you mean /jobs/reindex?")

	for _, typed := range []string{"/jobs/", ""} {
		wait.For(t, "the path is completed", func() bool { // each try takes two seconds at most
			out, _ = run(t, OK, "__complete", "status", typed)
			return strings.Contains(out, "/jobs/reindex\n")
		})
	}

	stopSecond()
	stopFirst()
	var v inspect.View
	out, errs = run(t, Leaderless, "status", "/jobs/reindex", "--json", "--timeout", "1m")
	assert.Contains(t, errs, "nobody leads /jobs/reindex")
	require.NoError(t, json.Unmarshal([]byte(out), &v), out)
	assert.Equal(t, "fair", v.Strategy)
	assert.Nil(t, v.Leader)
}

// The command waits for a silent service as long as its timeout.
func TestLookAtSilence(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	out, errs := run(t, Failed, "status", "etcd://"+l.Addr().String(), "/jobs/reindex", "--timeout", "200ms")
	assert.Empty(t, out)
	assert.Contains(t, errs, "no answer from the service within 200ms")
}

// nowhere returns an address at which nothing listens.
func nowhere(t *testing.T) string {
	t.Helper()
	ports := must.Get(loopback.Ports(1))(t)
	t.Cleanup(func() { loopback.Release(ports...) })
	return fmt.Sprintf("127.0.0.1:%d", ports[0])
}

// If nobody listens, the command says so before the timeout.
func TestLookAtNothing(t *testing.T) {
	addr := nowhere(t)
	for _, scheme := range services.Schemes() {
		_, errs := run(t, Failed, "status", scheme+"://"+addr+"?timeout=1h", "/jobs/reindex", "--timeout", "1h")
		assert.Contains(t, errs, "connection refused")
	}
}

// Text that somebody wrote into the service, or that a proxy answered, cannot control the terminal.
func TestErrorsAreForTerminals(t *testing.T) {
	servertest.Long(t, "the time for which the command asks again")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "\x1b[2Jdenied\nelector: all is well\u202e")
	}))
	defer s.Close()
	url := "consul://" + strings.TrimPrefix(s.URL, "http://")
	_, errs := run(t, Failed, "status", url, "/jobs/reindex")
	assert.Contains(t, errs, `\x1b[2Jdenied`)
	assert.Contains(t, errs, `all is well\u202e`)
	out, errs := run(t, Failed, "watch", url, "/jobs/reindex")
	assert.Contains(t, errs, `\x1b[2Jdenied`)
	assert.Regexp(t, `(?m)^20\d\d-\S+  out of touch: consul: .*\\x1b\[2Jdenied; elector: all is well\\u202e\)\n$`, out)
}
