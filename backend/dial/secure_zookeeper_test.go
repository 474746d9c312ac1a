package dial_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/internal/certtest"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
)

// TestZooKeeperDigest checks that nodes belong to the user that created them, and that other credentials
// are refused with a clear error.
func TestZooKeeperDigest(t *testing.T) {
	server := servertest.SharedZooKeeper(t)
	url := fmt.Sprintf("zk://%s/secure-%d?timeout=30s", server.Addr(), time.Now().UnixNano())
	t.Setenv("ZOOKEEPER_AUTH_FILE", file(t, "digest:ann:"+secret+"\n"))
	b, said := secured(t, url)
	e := stand(t, b, "/jobs/one", elector.Hooks{})
	term := must.Get(e.Campaign(t.Context()))(t)
	config := zookeeper.Config{Auth: []zookeeper.Auth{zookeeper.Digest("ann", secret)}}
	fmt.Fprintf(said, "%v %+v %#v", config, config, config)

	s := must.Get(b.Open(t.Context(), backend.OpenOptions{}))(t)
	acl, _, err := zookeeper.Conn(s).GetACL(zookeeper.Path(s, "/jobs/one"))
	require.NoError(t, err)
	assert.Equal(t, zk.DigestACL(zk.PermAll, "ann", secret), acl)
	require.NoError(t, s.Close(t.Context()))

	for _, auth := range []string{"", "digest:ann:wrong-" + secret, "digest:bob:" + secret} {
		setenv(t, "ZOOKEEPER_AUTH_FILE", "", "ZOOKEEPER_AUTH", auth)
		other, said := secured(t, url)
		_, err := stand(t, other, "/jobs/one", elector.Hooks{}).Campaign(t.Context())
		assert.ErrorIs(t, err, backend.ErrDenied)
		assert.ErrorContains(t, err, "the ACL gives the right to none of Config.Auth")
		if auth != "" {
			assert.ErrorContains(t, err, "this client has Auth of the scheme digest")
		}
		fmt.Fprintln(said, err)
	}
	assert.True(t, term.Valid(), "%v", context.Cause(term.Context()))
	require.NoError(t, term.Resign(t.Context()))
}

func TestZooKeeperCertificates(t *testing.T) {
	t.Setenv("ZOOKEEPER_AUTH", "digest:ann:"+secret+"\n")
	url, _ := certificates(t, "ZOOKEEPER_CACERT", "ZOOKEEPER_CERT", "ZOOKEEPER_KEY", func(files certtest.Files, _ bool) string {
		at := port(t)
		servertest.ZooKeeperForTest(t, servertest.ZooKeeperConfig{
			NoSync: true, QuickStart: true,
			Extra: []string{
				fmt.Sprintf("secureClientPort=%d", at), "secureClientPortAddress=127.0.0.1",
				"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
				"ssl.keyStore.location=" + files.Both, "ssl.keyStore.type=PEM",
				"ssl.trustStore.location=" + files.CA, "ssl.trustStore.type=PEM",
			},
		})
		address := fmt.Sprintf("127.0.0.1:%d", at)
		wait.For(t, "it listens there, too", func() bool {
			conn, err := net.Dial("tcp", address)
			return err == nil && conn.Close() == nil
		})
		return "zk://" + address + "/secure?timeout=30s"
	})
	fails(t, url+"&tls=false", "no session was granted")
}

// TestZooKeeperSASL checks that the credentials serve a candidate, and that a wrong password is refused for good.
func TestZooKeeperSASL(t *testing.T) {
	server := servertest.ZooKeeperForTest(t, servertest.ZooKeeperConfig{
		NoSync: true, QuickStart: true, Extra: []string{"enforce.auth.enabled=true", "enforce.auth.schemes=sasl"},
		JAAS: servertest.DigestJAAS("ann", secret),
	})
	url := fmt.Sprintf("zk://%s/secure?timeout=30s", server.Addr())
	setenv(t, "ZOOKEEPER_AUTH_FILE", file(t, "sasl:ann:"+secret+"\n"))
	b, said := secured(t, url)
	term := must.Get(stand(t, b, "/jobs/one", elector.Hooks{}).Campaign(t.Context()))(t)
	require.NoError(t, backend.Rehearse(t.Context(), b))
	s := must.Get(b.Open(t.Context(), backend.OpenOptions{}))(t)
	acl, _, err := zookeeper.Conn(s).GetACL(zookeeper.Path(s, "/jobs/one"))
	require.NoError(t, err)
	assert.Equal(t, []zk.ACL{{Perms: zk.PermAll, Scheme: "sasl", ID: "ann"}}, acl)
	require.NoError(t, s.Close(t.Context()))
	require.NoError(t, term.Resign(t.Context()))

	for auth, says := range map[string]string{"": "Config.SASL", "digest:ann:" + secret: "Config.SASL", "sasl:ann:wrong-" + secret: "a wrong password"} {
		setenv(t, "ZOOKEEPER_AUTH_FILE", "", "ZOOKEEPER_AUTH", auth)
		other, _ := secured(t, url)
		_, err := stand(t, other, "/jobs/one", elector.Hooks{}).Campaign(t.Context())
		require.ErrorIs(t, err, backend.ErrDenied)
		require.ErrorContains(t, err, says)
		fmt.Fprintln(said, err)
	}
}

// A new password needs no restart of candidates: the next link finds it in the file. One server after the other gets it,
// and the file once the first has it. The term is held.
func TestZooKeeperNewPassword(t *testing.T) {
	servertest.Long(t, "three servers that are started again")
	c := servertest.EnsembleForTest(t, 3, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true, HeapMB: 128, JAAS: servertest.DigestJAAS("ann", "old")})
	path := file(t, "sasl:ann:old\n")
	setenv(t, "ZOOKEEPER_AUTH_FILE", path)
	b, _ := secured(t, fmt.Sprintf("zk://%s/secure?timeout=30s", strings.Join(c.Addrs(), ",")))
	term := must.Get(stand(t, b, "/jobs/one", elector.Hooks{}).Campaign(t.Context()))(t)
	for i, m := range c.Members {
		require.NoError(t, m.SetJAAS(servertest.DigestJAAS("ann", "new")))
		require.NoError(t, m.Kill())
		require.NoError(t, m.Start())
		if i == 0 {
			require.NoError(t, os.WriteFile(path, []byte("Client { DigestLoginModule required username=\"ann\" password=\"new\"; };"), 0o600))
		}
		require.NoError(t, term.Proclaim(t.Context(), []byte(m.Name())))
		require.True(t, term.Valid(), "%v", context.Cause(term.Context()))
	}
	require.NoError(t, term.Resign(t.Context()))
}
