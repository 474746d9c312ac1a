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
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
)

// etcdUser makes a user that may hold the elections below /jobs, and write there, as
// docs/operations.md has it, and no more.
func etcdUser(t *testing.T, operator *clientv3.Client, name, password string) {
	t.Helper()
	readwrite := clientv3.PermissionType(clientv3.PermReadWrite)
	_, err := operator.RoleAdd(t.Context(), name)
	require.NoError(t, err)
	_, err = operator.RoleGrantPermission(t.Context(), name, "/jobs", "", readwrite)
	require.NoError(t, err)
	_, err = operator.RoleGrantPermission(t.Context(), name, "/jobs/", clientv3.GetPrefixRangeEnd("/jobs/"), readwrite)
	require.NoError(t, err)
	_, err = operator.UserAddWithOptions(t.Context(), name, password, &clientv3.UserAddOptions{NoPassword: password == ""})
	require.NoError(t, err)
	_, err = operator.UserGrantRole(t.Context(), name, name)
	require.NoError(t, err)
}

// guard switches authentication on.
func guard(t *testing.T, operator *clientv3.Client) {
	t.Helper()
	_, err := operator.RoleAdd(t.Context(), "root")
	require.NoError(t, err)
	_, err = operator.UserAdd(t.Context(), "root", "root")
	require.NoError(t, err)
	_, err = operator.UserGrantRole(t.Context(), "root", "root")
	require.NoError(t, err)
	_, err = operator.AuthEnable(t.Context())
	require.NoError(t, err)
}

// etcdRoot is a client that may do everything.
func etcdRoot(t *testing.T, server *servertest.Etcd) *clientv3.Client {
	return etcdtest.NewClient(t, []string{server.Addr()}, func(cfg *clientv3.Config) { cfg.Username, cfg.Password = "root", "root" }).Client
}

func TestEtcdUser(t *testing.T) {
	server := servertest.EtcdForTest(t, servertest.EtcdConfig{NoSync: true, Args: []string{"--bcrypt-cost=4", "--auth-token-ttl=2"}})
	operator := etcdtest.Operator(t, server.Addr())
	etcdUser(t, operator, "ann", secret)
	guard(t, operator)
	url := "etcd://" + server.Addr() + "?timeout=10s"

	took, err := refusal(t, url)
	assert.ErrorIs(t, err, backend.ErrDenied)
	assert.ErrorContains(t, err, "user name is empty")
	assert.Less(t, took, 10*time.Second)

	t.Setenv("ETCDCTL_USER", "ann:wrong-"+secret)
	took, err = refusal(t, url)
	assert.ErrorIs(t, err, backend.ErrDenied)
	assert.ErrorContains(t, err, "invalid user ID or password")
	assert.Less(t, took, 10*time.Second)

	t.Setenv("ETCDCTL_USER", "ann:"+secret)
	term, _ := lead(t, url, "/jobs/one")
	_, err = term.Get(t.Context(), "/elsewhere")
	assert.ErrorIs(t, err, backend.ErrDenied)

	t.Run("tokens run out, and the password changes", func(t *testing.T) {
		servertest.Long(t, "the time in which tokens run out")
		etcdTokensRunOut(t, server, url)
	})
}

// A password costs the servers a processor's time. Sessions that are opened together share a login,
// though each has a stream or two.
func TestEtcdStreamsShareALogin(t *testing.T) {
	server := servertest.EtcdForTest(t, servertest.EtcdConfig{NoSync: true, Args: []string{"--bcrypt-cost=4"}})
	operator := etcdtest.Operator(t, server.Addr())
	etcdUser(t, operator, "ann", secret)
	guard(t, operator)
	t.Setenv("ETCDCTL_USER", "ann:"+secret)
	b := open(t, "etcd://"+server.Addr()+"?timeout=10s")
	logins := func() int {
		t.Helper()
		n, err := etcdtest.Metric(server, `grpc_server_started_total{grpc_method="Authenticate",grpc_service="etcdserverpb.Auth",grpc_type="unary"}`)
		require.NoError(t, err)
		return n
	}
	var sessions []*backend.Session
	var granted []time.Time
	before := logins()
	for range 50 {
		s, err := b.Open(t.Context(), backend.OpenOptions{})
		require.NoError(t, err)
		defer s.Close(t.Context())
		sessions, granted = append(sessions, s), append(granted, s.Deadline())
	}
	for i, s := range sessions {
		wait.For(t, "a heartbeat", func() bool { return s.Deadline().After(granted[i]) })
	}
	assert.Equal(t, 1, logins()-before)
}

// etcdTokensRunOut holds that a leader goes on when its token has run out, after two seconds, and so does one
// that waits for it; and who is refused when the password has changed.
func etcdTokensRunOut(t *testing.T, server *servertest.Etcd, url string) {
	passwords := file(t, secret+"\n")
	setenv(t, "ETCDCTL_USER", "ann", "ETCDCTL_PASSWORD_FILE", passwords)
	changed, _ := lead(t, url, "/jobs/two")
	setenv(t, "ETCDCTL_PASSWORD_FILE", "", "ETCDCTL_PASSWORD", secret+"\n")
	stays, said := lead(t, url, "/jobs/three")
	heir := stand(t, open(t, url), "/jobs/two", elector.Hooks{})
	next := make(chan error, 1)
	go func() {
		_, err := heir.Campaign(t.Context())
		next <- err
	}()
	time.Sleep(7 * time.Second)
	assert.True(t, changed.Valid(), "%v", context.Cause(changed.Context()))
	assert.True(t, stays.Valid(), "%v", context.Cause(stays.Context()))
	_, err := changed.Commit(t.Context(), elector.Put("/jobs-state", nil))
	assert.ErrorIs(t, err, backend.ErrDenied)
	_, err = changed.Commit(t.Context(), elector.Put("/jobs/state", nil))
	assert.NoError(t, err)

	// The password is changed, in the file, too. Whoever has the old one alone is refused.
	require.NoError(t, os.WriteFile(passwords, []byte(secret+"-new\n"), 0o600))
	_, err = etcdRoot(t, server).UserChangePassword(t.Context(), "ann", secret+"-new")
	require.NoError(t, err)
	ended(t, stays.Context())
	assert.True(t, said.has("invalid user ID or password"))
	select {
	case err := <-next:
		assert.ErrorIs(t, err, backend.ErrDenied)
		assert.ErrorContains(t, err, "invalid user ID or password")
	case <-time.After(wait.Patience):
		t.Error("the campaign of the old password goes on")
	}
	assert.True(t, changed.Valid(), "%v", context.Cause(changed.Context()))
	require.NoError(t, changed.Resign(t.Context()))
}

// TestEtcdCertificates has clients present certificates, whose names are users; and servers some
// that are not to be trusted.
func TestEtcdCertificates(t *testing.T) {
	ca := authority(t)
	own, ann, stranger := ca.ForTest(t, "server"), ca.ForTest(t, "ann"), authority(t).ForTest(t, "ann")
	expired, elsewhere := ca.ForTest(t, "server", certtest.Expired), ca.ForTest(t, "server", certtest.Elsewhere)
	start := func(files certtest.Files, args ...string) (url string, server *servertest.Etcd) {
		address := at(port(t))
		server = servertest.EtcdForTest(t, servertest.EtcdConfig{
			NoSync: true, Listen: []string{"https://" + address},
			Args: append(args, "--bcrypt-cost=4", "--cert-file", files.Cert, "--key-file", files.Key),
		})
		return "etcd://" + address + "?timeout=30s", server
	}
	url, server := start(own, "--client-cert-auth", "--trusted-ca-file", own.CA)
	operator := etcdtest.Operator(t, server.Addr())
	etcdUser(t, operator, "ann", "")
	guard(t, operator)

	setenv(t, "ETCDCTL_CACERT", ann.CA, "ETCDCTL_CERT", ann.Cert, "ETCDCTL_KEY", ann.Key)
	term, _ := lead(t, url, "/jobs/one")
	_, err := term.Get(t.Context(), "/elsewhere")
	assert.ErrorIs(t, err, backend.ErrDenied)
	_, err = term.Commit(t.Context(), elector.Put("/jobs/state", nil))
	assert.NoError(t, err)

	fails(t, url, "remote error: tls: ", "ETCDCTL_CERT", "", "ETCDCTL_KEY", "")
	fails(t, url, "remote error: tls: ", "ETCDCTL_CERT", stranger.Cert, "ETCDCTL_KEY", stranger.Key)
	fails(t, url, "x509: certificate signed by unknown authority", "ETCDCTL_CACERT", stranger.CA)
	fails(t, url+"&tls=true", "x509: certificate signed by unknown authority", "ETCDCTL_CACERT", "", "ETCDCTL_CERT", "", "ETCDCTL_KEY", "")
	renewed(t, url, "ETCDCTL_CERT", "ETCDCTL_KEY", stranger, ann)
	t.Run("of the wrong servers", func(t *testing.T) {
		servertest.Long(t, "two more servers")
		// The server is a client of its own at times: it would refuse itself if it asked for certificates, too.
		url, _ := start(expired)
		fails(t, url, "x509: certificate has expired")
		url, _ = start(elsewhere)
		fails(t, url, "x509: cannot validate certificate for 127.0.0.1")
	})
}

// JSON Web Tokens are old with each change of users. A stream that is refused for that is opened again with a
// new one, at once, however young the old one is. A watch that is refused is told in an answer.
func TestEtcdStreamsAfterAChangeOfUsers(t *testing.T) {
	key := file(t, strings.Repeat("k", 32))
	server := servertest.EtcdForTest(t, servertest.EtcdConfig{NoSync: true, Args: []string{"--bcrypt-cost=4",
		"--auth-token", "jwt,sign-method=HS256,ttl=1h,priv-key=" + key}})
	operator := etcdtest.Operator(t, server.Addr())
	etcdUser(t, operator, "ann", secret)
	guard(t, operator)
	root := etcdRoot(t, server)
	t.Setenv("ETCDCTL_USER", "ann:"+secret)
	client := open(t, "etcd://"+server.Addr()+"?timeout=10s").Backend.(*etcd.Backend).Client()
	conn := client.ActiveConnection()
	lease, err := client.Grant(t.Context(), 600)
	require.NoError(t, err)
	_, err = client.Put(t.Context(), "/jobs/one", "", clientv3.WithLease(lease.ID))
	require.NoError(t, err)
	for i, ask := range []func() error{
		func() error {
			s, err := pb.NewLeaseClient(conn).LeaseKeepAlive(t.Context())
			require.NoError(t, err)
			require.NoError(t, s.Send(&pb.LeaseKeepAliveRequest{ID: int64(lease.ID)}))
			_, err = s.Recv()
			return rpctypes.Error(err)
		},
		func() error {
			s, err := pb.NewWatchClient(conn).Watch(t.Context())
			require.NoError(t, err)
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
		_, err := root.UserAdd(t.Context(), fmt.Sprint("user", i), "pass")
		require.NoError(t, err)
		require.ErrorContains(t, ask(), "revision of auth store is old")
		require.NoError(t, ask())
	}
}

// A server that starts again has forgotten all tokens. Sessions go on, and one that waits is told.
func TestEtcdForgetsTokens(t *testing.T) {
	server := servertest.EtcdForTest(t, servertest.EtcdConfig{NoSync: true, Args: []string{"--bcrypt-cost=4"}})
	operator := etcdtest.Operator(t, server.Addr())
	etcdUser(t, operator, "ann", secret)
	guard(t, operator)
	t.Setenv("ETCDCTL_USER", "ann:"+secret)
	url := "etcd://" + server.Addr() + "?timeout=15s"
	var sessions []*backend.Session
	for range 2 {
		s, err := open(t, url).Open(t.Context(), backend.OpenOptions{})
		require.NoError(t, err)
		defer s.Close(t.Context())
		sessions = append(sessions, s)
	}
	_, err := sessions[0].Commit(t.Context(), nil, backend.CompareAndSet("/jobs/dir", nil, 0))
	require.NoError(t, err)
	made, err := sessions[0].Commit(t.Context(), nil, backend.CreateEphemeral("/jobs/dir/one", nil))
	require.NoError(t, err)
	told := make(chan error, 1)
	go func() {
		_, err := sessions[1].Await(t.Context(), made[0])
		told <- err
	}()
	require.NoError(t, server.Restart())
	for _, s := range sessions {
		granted := s.Deadline()
		wait.For(t, "a heartbeat", func() bool { return s.Deadline().After(granted) })
	}
	require.NoError(t, sessions[0].Discard(t.Context(), made[0]))
	select {
	case err := <-told:
		require.NoError(t, err)
	case <-time.After(wait.Patience):
		t.Error("nobody is told")
	}
}
