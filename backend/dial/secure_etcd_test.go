package dial_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/etcd"
	"github.com/elector-go/elector/internal/certtest"
	"github.com/elector-go/elector/internal/etcdtest"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
)

// startEtcd starts a server on which a login costs little.
func startEtcd(t *testing.T, c servertest.EtcdConfig) *servertest.Etcd {
	c.NoSync, c.Args = true, append(c.Args, "--bcrypt-cost=4")
	return servertest.EtcdForTest(t, c)
}

// guard switches authentication on. Besides root there is a user ann, who may hold the elections below
// /jobs and write there, as in docs/settings.md, and no more.
func guard(t *testing.T, server *servertest.Etcd, password string) {
	t.Helper()
	operator, readwrite := etcdtest.Operator(t, server.Addr()), clientv3.PermissionType(clientv3.PermReadWrite)
	must.Get(operator.RoleAdd(t.Context(), "ann"))(t)
	must.Get(operator.RoleGrantPermission(t.Context(), "ann", "/jobs", "", readwrite))(t)
	must.Get(operator.RoleGrantPermission(t.Context(), "ann", "/jobs/", clientv3.GetPrefixRangeEnd("/jobs/"), readwrite))(t)
	must.Get(operator.UserAddWithOptions(t.Context(), "ann", password, &clientv3.UserAddOptions{NoPassword: password == ""}))(t)
	must.Get(operator.RoleAdd(t.Context(), "root"))(t)
	must.Get(operator.UserAdd(t.Context(), "root", "root"))(t)
	for _, name := range []string{"ann", "root"} {
		must.Get(operator.UserGrantRole(t.Context(), name, name))(t)
	}
	must.Get(operator.AuthEnable(t.Context()))(t)
}

// guardedEtcd starts a server that asks for passwords, and returns its URL.
func guardedEtcd(t *testing.T, args ...string) (url string, server *servertest.Etcd) {
	t.Helper()
	server = startEtcd(t, servertest.EtcdConfig{Args: args})
	guard(t, server, secret)
	return "etcd://" + server.Addr(), server
}

// etcdRoot returns a client that may do everything.
func etcdRoot(t *testing.T, server *servertest.Etcd) *clientv3.Client {
	return etcdtest.NewClient(t, []string{server.Addr()}, func(cfg *clientv3.Config) { cfg.Username, cfg.Password = "root", "root" }).Client
}

func TestEtcdUser(t *testing.T) {
	url, server := guardedEtcd(t, "--auth-token-ttl=2")
	url += "?timeout=10s"

	for user, says := range map[string]string{"": "user name is empty", "ann:wrong-" + secret: "invalid user ID or password"} {
		t.Setenv("ETCDCTL_USER", user)
		took, err := refusal(t, url)
		assert.ErrorIs(t, err, backend.ErrDenied)
		assert.ErrorContains(t, err, says)
		assert.Less(t, took, 10*time.Second)
	}

	t.Setenv("ETCDCTL_USER", "ann:"+secret)
	term, _ := lead(t, url, "/jobs/one")
	assert.ErrorIs(t, must.Err(term.Get(t.Context(), "/elsewhere")), backend.ErrDenied)

	t.Run("tokens run out, and the password changes", func(t *testing.T) {
		servertest.Long(t, "the time in which tokens run out")
		etcdTokensRunOut(t, server, url)
	})
}

// Sessions that are opened together share a login, though each has a stream or two: a login with a password
// costs the servers processor time.
func TestEtcdStreamsShareALogin(t *testing.T) {
	url, server := guardedEtcd(t)
	t.Setenv("ETCDCTL_USER", "ann:"+secret)
	b := open(t, url+"?timeout=10s")
	logins := func() int {
		t.Helper()
		n := must.Get(etcdtest.Metric(server, `grpc_server_started_total{grpc_method="Authenticate",grpc_service="etcdserverpb.Auth",grpc_type="unary"}`))(t)
		return n
	}
	var sessions []*backend.Session
	var granted []time.Time
	before := logins()
	for range 50 {
		s := must.Get(b.Open(t.Context(), backend.OpenOptions{}))(t)
		defer s.Close(t.Context())
		sessions, granted = append(sessions, s), append(granted, s.Deadline())
	}
	for i, s := range sessions {
		wait.For(t, "a heartbeat", func() bool { return s.Deadline().After(granted[i]) })
	}
	assert.Equal(t, 1, logins()-before)
}

// etcdTokensRunOut checks that a leader continues when its token has run out, after two seconds, and so
// does a candidate that waits; and who is refused when the password has changed.
func etcdTokensRunOut(t *testing.T, server *servertest.Etcd, url string) {
	passwords := file(t, secret+"\n")
	setenv(t, "ETCDCTL_USER", "ann", "ETCDCTL_PASSWORD_FILE", passwords)
	changed, _ := lead(t, url, "/jobs/two")
	setenv(t, "ETCDCTL_PASSWORD_FILE", "", "ETCDCTL_PASSWORD", secret+"\n")
	stays, said := lead(t, url, "/jobs/three")
	heir := stand(t, open(t, url), "/jobs/two", elector.Hooks{})
	next := wait.Later(func() (*elector.Term, error) { return heir.Campaign(t.Context()) })
	time.Sleep(7 * time.Second)
	assert.True(t, changed.Valid(), "%v", context.Cause(changed.Context()))
	assert.True(t, stays.Valid(), "%v", context.Cause(stays.Context()))
	assert.ErrorIs(t, must.Err(changed.Commit(t.Context(), elector.Put("/jobs-state", nil))), backend.ErrDenied)
	assert.NoError(t, must.Err(changed.Commit(t.Context(), elector.Put("/jobs/state", nil))))

	// The password is changed, in the file, too. A process that has only the old one is refused.
	require.NoError(t, os.WriteFile(passwords, []byte(secret+"-new\n"), 0o600))
	must.Get(etcdRoot(t, server).UserChangePassword(t.Context(), "ann", secret+"-new"))(t)
	wait.Receive(t, "the term ends", stays.Context().Done())
	assert.True(t, said.Has("invalid user ID or password"))
	err := wait.Receive(t, "the campaign of the old password ends", next).Err
	assert.ErrorIs(t, err, backend.ErrDenied)
	assert.ErrorContains(t, err, "invalid user ID or password")
	assert.True(t, changed.Valid(), "%v", context.Cause(changed.Context()))
	require.NoError(t, changed.Resign(t.Context()))
}

// TestEtcdCertificates checks clients' certificates, whose names are users, and servers' certificates that
// must not be trusted.
func TestEtcdCertificates(t *testing.T) {
	url, term := certificates(t, "ETCDCTL_CACERT", "ETCDCTL_CERT", "ETCDCTL_KEY", func(files certtest.Files, asks bool) string {
		address, args := at(port(t)), []string{"--cert-file", files.Cert, "--key-file", files.Key}
		if asks { // other servers are their own clients at times, and would refuse themselves
			args = append(args, "--client-cert-auth", "--trusted-ca-file", files.CA)
		}
		server := startEtcd(t, servertest.EtcdConfig{Listen: []string{"https://" + address}, Args: args})
		if asks {
			guard(t, server, "")
		}
		return "etcd://" + address + "?timeout=30s"
	})
	assert.ErrorIs(t, must.Err(term.Get(t.Context(), "/elsewhere")), backend.ErrDenied)
	fails(t, url+"&tls=true", "x509: certificate signed by unknown authority", "ETCDCTL_CACERT", "", "ETCDCTL_CERT", "", "ETCDCTL_KEY", "")
}

// A change of users makes JSON Web Tokens old. A stream that is refused for that is opened again with a new
// token, at once, however young the old one is. A watch is refused in a reply.
func TestEtcdStreamsAfterAChangeOfUsers(t *testing.T) {
	key := file(t, strings.Repeat("k", 32))
	url, server := guardedEtcd(t, "--auth-token", "jwt,sign-method=HS256,ttl=1h,priv-key="+key)
	root := etcdRoot(t, server)
	t.Setenv("ETCDCTL_USER", "ann:"+secret)
	client := open(t, url+"?timeout=10s").Backend.(*etcd.Backend).Client()
	conn := client.ActiveConnection()
	lease := must.Get(client.Grant(t.Context(), 600))(t)
	must.Get(client.Put(t.Context(), "/jobs/one", "", clientv3.WithLease(lease.ID)))(t)
	for i, ask := range []func() error{
		func() error {
			s := must.Get(pb.NewLeaseClient(conn).LeaseKeepAlive(t.Context()))(t)
			require.NoError(t, s.Send(&pb.LeaseKeepAliveRequest{ID: int64(lease.ID)}))
			_, err := s.Recv()
			return rpctypes.Error(err)
		},
		func() error {
			s := must.Get(pb.NewWatchClient(conn).Watch(t.Context()))(t)
			request := &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{Key: []byte("/jobs/one")}}
			require.NoError(t, s.Send(&pb.WatchRequest{RequestUnion: request}))
			answer, err := s.Recv()
			if err == nil && answer.Canceled {
				err = errors.New(answer.CancelReason)
			}
			return err
		},
	} {
		require.NoError(t, ask())
		must.Get(root.UserAdd(t.Context(), fmt.Sprint("user", i), "pass"))(t)
		require.ErrorContains(t, ask(), "revision of auth store is old")
		require.NoError(t, ask())
	}
}

// A server that starts again has forgotten all tokens. Sessions continue, and a wait still returns.
func TestEtcdForgetsTokens(t *testing.T) {
	url, server := guardedEtcd(t)
	t.Setenv("ETCDCTL_USER", "ann:"+secret)
	var sessions []*backend.Session
	for range 2 {
		sessions = append(sessions, session(t, url+"?timeout=15s"))
	}
	must.Get(sessions[0].Commit(t.Context(), nil, backend.CompareAndSet("/jobs/dir", nil, 0)))(t)
	made := must.Get(sessions[0].Commit(t.Context(), nil, backend.CreateEphemeral("/jobs/dir/one", nil)))(t)
	told := wait.Later(func() ([]backend.Entry, error) { return sessions[1].Await(t.Context(), made[0]) })
	require.NoError(t, server.Restart())
	for _, s := range sessions {
		granted := s.Deadline()
		wait.For(t, "a heartbeat", func() bool { return s.Deadline().After(granted) })
	}
	require.NoError(t, sessions[0].Discard(t.Context(), made[0]))
	require.NoError(t, wait.Receive(t, "the one that waits is told", told).Err)
}
