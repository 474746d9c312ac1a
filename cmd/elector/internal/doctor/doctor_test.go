package doctor

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/backend/dial"
	"github.com/elector-go/elector/internal/certtest"
	"github.com/elector-go/elector/internal/consultest"
	"github.com/elector-go/elector/internal/etcdtest"
	"github.com/elector-go/elector/internal/loopback"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/networktest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/services"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/internal/zktest"
)

func TestMain(m *testing.M) { os.Exit(servertest.Main(m)) }

// check holds that the doctor finishes, and returns its findings.
func check(t *testing.T, url, path string) Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Patience)
	defer cancel()
	r := must.Get(Check(ctx, url, path))(t)
	require.NoError(t, ctx.Err(), "%v", r)
	return r
}

// says holds that there is a finding of this check at this level, with this text.
func says(t *testing.T, all Findings, check string, level Level, text string) {
	t.Helper()
	for _, f := range all {
		if f.Check == check && f.Level == level && strings.Contains(f.Says, text) {
			return
		}
	}
	assert.Fail(t, fmt.Sprintf("nothing of %s is %s and says %q", check, level, text), "%+v", all)
}

// told returns all findings about servers.
func told(all []*Server) (text string) {
	for _, s := range all {
		text += fmt.Sprintf("%v\n", s.Findings)
	}
	return text
}

// A member is a server that can fail.
type member interface {
	Addr() string
	Pause() error
	Resume() error
	Kill() error
}

// members checks a cluster of three: all well, one frozen, one dead, and two dead. The URL names three members.
func members(t *testing.T, url string, all []member, lonely string) {
	r := check(t, url, "/")
	for _, s := range r.Servers {
		says(t, s.Findings, "reachable", OK, "connected")
		says(t, s.Findings, "session", OK, "grants sessions")
	}
	says(t, r.Service, "rights", OK, "create, read, list, watch and delete")
	says(t, r.Service, "commit", OK, "10 commits")
	assert.NotEqual(t, Fail, r.Level)

	others := func() {
		t.Helper()
		wait.For(t, "the others have a leader", func() bool { r = check(t, url, "/"); return r.Level == Warn })
		says(t, r.Service, "rights", OK, "create")
	}
	require.NoError(t, all[0].Pause())
	others()
	says(t, r.Servers[0].Findings, "answers", Warn, "accepts connections but does not answer")
	require.NoError(t, all[0].Resume())

	require.NoError(t, all[0].Kill())
	others()
	says(t, r.Servers[0].Findings, "reachable", Warn, "connection refused")

	require.NoError(t, all[1].Kill())
	wait.For(t, "the last one finds out, when it has missed its heartbeats", func() bool {
		r = check(t, url, "/")
		return r.Level == Fail && strings.Contains(fmt.Sprint(r.Servers[2].Findings), lonely)
	})
	says(t, r.Service, "servers", Fail, "no server can be used")
}

func TestEtcdCluster(t *testing.T) {
	t.Parallel()
	c := servertest.EtcdClusterForTest(t, 3, servertest.EtcdConfig{NoSync: true})
	url := "etcd://" + strings.Join(c.Addrs(), ",") + "?timeout=30s"
	r := check(t, url, "/")
	assert.Contains(t, told(r.Servers), " leader ")
	assert.Contains(t, told(r.Servers), " follower ")
	says(t, r.Service, "timeouts", OK, "from 2s")
	says(t, r.Service, "clock", Unknown, "etcd reports no time")
	members(t, url, []member{c.Members[0], c.Members[1]}, "knows no leader")
}

func TestZooKeeperEnsemble(t *testing.T) {
	t.Parallel()
	c := servertest.EnsembleForTest(t, 4, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true, TickTime: 400 * time.Millisecond, Observers: 1})
	says(t, check(t, "zk://"+strings.Join(c.Addrs(), ","), "/").Servers[3].Findings, "role", OK, "observer, which follows the leader")
	chroot := "zk://" + strings.Join(c.Addrs()[:3], ",") + "/doctor"
	url := chroot + "?timeout=30s"
	r := check(t, url, "/")
	assert.Contains(t, told(r.Servers), " leader ")
	assert.Contains(t, told(r.Servers), " follower ")
	says(t, r.Servers[1].Findings, "settings", OK, "tickTime 400 ms, minSessionTimeout 800 ms, maxSessionTimeout 60000 ms")
	says(t, r.Service, "timeouts", OK, "from 800ms to 1m0s")
	says(t, r.Service, "clock", OK, "further than this machine's")
	says(t, check(t, chroot+"?timeout=2m", "/").Service, "session", Warn, "asked for a timeout of 2m0s, granted 1m0s")
	members(t, url, []member{c.Members[0], c.Members[1]}, "not serving")
}

// An observer that follows another follower is named.
func TestZooKeeperObserverOfAFollower(t *testing.T) {
	servertest.Long(t, "a network, and four servers")
	t.Parallel()
	c := servertest.EnsembleForTest(t, 4, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true, Observers: 1,
		TickTime: 4 * time.Second,
		Network:  networktest.ForTest(t, 4), Extra: []string{"observerMasterPort=2191"}})
	url := "zk://" + strings.Join(c.Addrs(), ",")
	r := check(t, url+"?timeout=15s", "/")
	says(t, r.Servers[3].Findings, "role", Warn, "and not the leader")
	says(t, r.Service, "rights", OK, "create")
	says(t, check(t, "zk://"+c.Addrs()[3]+"?timeout=15s", "/").Servers[0].Findings, "role", Unknown, "observer")
	says(t, check(t, url+"?timeout=20s", "/").Servers[3].Findings, "role", OK, "five ticks at least")
}

// answers is a test's own server. It answers the first four bytes of each connection, and closes it.
func answers(t *testing.T, answer func(conn net.Conn, word []byte)) (addr string) {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { assert.NoError(t, l.Close()) })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				word := make([]byte, 4)
				_, _ = io.ReadFull(conn, word) // one that says less gets an answer, too
				answer(conn, word)
			}()
		}
	}()
	return l.Addr().String()
}

// A server that only speaks ZooKeeper's protocol is named. One without a leader is named by its handshake.
func TestKeepers(t *testing.T) {
	t.Parallel()
	handshake := make([]byte, 40) // ClickHouse Keeper's: a version that is a refusal, the timeout, and session -1 without a password
	handshake[3], handshake[7] = 36, 42
	binary.BigEndian.PutUint32(handshake[8:], 30000)
	binary.BigEndian.PutUint64(handshake[12:], 1<<64-1)
	binary.BigEndian.PutUint32(handshake[20:], 16)
	for srvr, want := range map[string]string{
		"ClickHouse Keeper version: v25.3.1-stable-abc\nMode: leader\n": `"ClickHouse Keeper", version "v25.3.1-stable-abc", is not supported`,
		"RaftKeeper version: RaftKeeper v2.0.4\nMode: leader\n":         `"RaftKeeper"`,
		"": "ClickHouse Keeper",
	} {
		addr := answers(t, func(conn net.Conn, word []byte) {
			answer := []byte(srvr)
			if word[0] == 0 { // a length: closing with something unread resets the connection, and loses the answer
				answer = handshake
				_, _ = io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(word)))
			}
			_, _ = conn.Write(answer)
		})
		r := check(t, "zk://"+addr, "/")
		assert.Equal(t, Fail, r.Level, "%v", r)
		if srvr != "" {
			says(t, r.Servers[0].Findings, "product", Fail, want)
			says(t, r.Service, "servers", Fail, "no server can be used")
		} else {
			says(t, r.Service, "session", Fail, want)
		}
	}
}

// What a server says of itself is judged.
func TestZooKeeperSaysOfItself(t *testing.T) {
	t.Parallel()
	for srvr, want := range map[string]Finding{
		"Mode: read-only":                 {Check: "role", Level: Warn, Says: "read-only mode: it has lost touch"},
		"Mode: observer":                  {Check: "role", Level: Unknown, Says: "observer"},
		"Mode: leader\nZxid: 0x1fffffff0": {Check: "zxid", Level: Warn, Says: "15 transactions are left"},
		"Mode: leader\nzk_version\t3.8.0\nzk_throttled_ops\t2\nzk_request_throttle_wait_count\t7\n": {
			Check: "throttling", Level: Warn, Says: "held back requests 7 times, and refused 2"},
	} {
		addr := answers(t, func(conn net.Conn, _ []byte) {
			_, _ = io.WriteString(conn, "Zookeeper version: 3.8.0-1\n"+srvr+"\n")
		})
		says(t, check(t, "zk://"+addr, "/").Servers[0].Findings, want.Check, want.Level, want.Says)
	}
}

// Settings under which candidates can do nothing are named.
func TestZooKeeperSettings(t *testing.T) {
	server := servertest.ZooKeeperForTest(t, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true,
		Extra: []string{"enforce.auth.enabled=true", "enforce.auth.schemes=digest"}})
	says(t, check(t, "zk://"+server.Addr(), "/").Service, "rights", Fail, "clients that authenticate")
	t.Setenv("ZOOKEEPER_AUTH", "digest:ann:secret")
	says(t, check(t, "zk://"+server.Addr(), "/").Service, "rights", OK, "create")

	t.Run("local sessions", func(t *testing.T) {
		c := servertest.EnsembleForTest(t, 3, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true,
			Extra: []string{"localSessionsEnabled=true", "localSessionsUpgradingEnabled=false"}})
		for _, addr := range c.Addrs() {
			says(t, check(t, "zk://"+addr, "/").Service, "rights", Fail, "localSessionsUpgradingEnabled=true")
		}
	})
}

// A server that answers no four-letter word except srvr is no worse for it. An interrupt leaves nothing behind.
func TestZooKeeperWithoutWords(t *testing.T) {
	t.Parallel()
	server := servertest.ZooKeeperForTest(t, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true,
		Extra: []string{"4lw.commands.whitelist=ruok"}})
	url := "zk://" + server.Addr() + "?timeout=1m" // slow commits are the doctor's to report
	r := check(t, url, "/")
	says(t, r.Servers[0].Findings, "settings", Unknown, `does not answer to "conf"`)
	says(t, r.Service, "commit", OK, "10 commits")
	assert.Equal(t, OK, r.Level)

	operator := zktest.Operator(t, server.Addr())
	probes := func() (all []string, changed <-chan zk.Event) {
		keys, _, changed, err := operator.ChildrenW("/")
		require.NoError(t, err)
		return slices.DeleteFunc(keys, func(key string) bool { return !strings.HasPrefix(key, "elector-doctor-") }), changed
	}
	left, _ := probes()
	assert.Empty(t, left, "nothing stays behind")
	for range 20 { // each is interrupted somewhere
		ctx, interrupt := context.WithCancel(t.Context())
		_, begins := probes()
		done := make(chan error, 1)
		go func() {
			_, err := Check(ctx, url, "/")
			done <- err
		}()
		<-begins
		interrupt()
		require.NoError(t, <-done)
		left, _ = probes()
		require.Empty(t, left, "nor of one that was interrupted")
	}
}

// TestZooKeeperRights holds that others' nodes are reported.
func TestZooKeeperRights(t *testing.T) {
	url := "zk://" + servertest.SharedZooKeeper(t).Addr()
	operator := zktest.Operator(t, servertest.SharedZooKeeper(t).Addr())
	must.Get(operator.Create("/anns", nil, 0, zk.DigestACL(zk.PermAll, "ann", "right")))(t)
	t.Setenv("ZOOKEEPER_AUTH", "digest:ann:wrong")
	says(t, check(t, url, "/anns").Service, "rights", Fail, "may not read below /anns")
	t.Setenv("ZOOKEEPER_AUTH", "digest:ann:right")
	says(t, check(t, url, "/anns").Service, "rights", OK, "below /anns")
}

// A quota is reported, also of a node above, with what is left of it.
func TestZooKeeperQuota(t *testing.T) {
	t.Parallel()
	server := servertest.ZooKeeperForTest(t, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true, Extra: []string{"enforceQuota=true"}})
	operator := zktest.Operator(t, server.Addr())
	zktest.SetQuota(t, operator, "/quota", 40)
	url := "zk://" + server.Addr()
	r := check(t, url+"/quota", "/")
	says(t, r.Service, "quota", OK, "1 of 40 nodes are used on /quota")
	for i := range 39 {
		must.Get(operator.Create(fmt.Sprint("/quota/", i), nil, 0, zk.WorldACL(zk.PermAll)))(t)
	}
	r = check(t, url, "/quota/below")
	says(t, r.Service, "quota", Warn, "40 of 40 nodes are used on /quota")
	says(t, r.Service, "rights", Fail, "a quota on the path")
}

// TestZooKeeperSASL holds that what is wrong with SASL is reported, under both settings that require it.
func TestZooKeeperSASL(t *testing.T) {
	for _, setting := range []string{"enforce.auth.enabled=true\nenforce.auth.schemes=sasl", "sessionRequireClientSASLAuth=true"} {
		server := servertest.ZooKeeperForTest(t, servertest.ZooKeeperConfig{
			NoSync: true, QuickStart: true, Extra: strings.Split(setting, "\n"),
			JAAS: servertest.DigestJAAS("ann", "right"),
		})
		url := "zk://" + server.Addr() + "?timeout=1m" // slow commits are the doctor's to report
		t.Setenv("ZOOKEEPER_AUTH", "sasl:ann:wrong")
		says(t, check(t, url, "/jobs").Service, "session", Fail, "wrong password")
		for _, other := range []string{"", "digest:ann:right"} {
			t.Setenv("ZOOKEEPER_AUTH", other)
			says(t, check(t, url, "/jobs").Service, "rights", Fail, "Config.SASL")
		}
		t.Setenv("ZOOKEEPER_AUTH", "sasl:ann:right")
		r := check(t, url, "/jobs")
		says(t, r.Service, "rights", OK, "below /jobs")
		assert.Equal(t, OK, r.Level, "%v", r)
	}
	plain := "zk://" + servertest.SharedZooKeeper(t).Addr()
	says(t, check(t, plain, "/jobs").Service, "session", Fail, "no JAAS file with a section Server")
}

func TestConsul(t *testing.T) {
	servertest.Long(t, "an agent, a server that is frozen, and refusals that are asked again")
	server := servertest.ConsulForTest(t, servertest.ConsulConfig{NoSync: true, ACL: true, Config: "limits { http_max_conns_per_client = 40 }"})
	operator := must.Get(consultest.Operator(server))(t)
	token := func(rules string) string {
		policy := must.First(operator.ACL().PolicyCreate(&api.ACLPolicy{Name: nonce(), Rules: rules}, nil))(t)
		made, _, err := operator.ACL().TokenCreate(&api.ACLToken{Policies: []*api.ACLTokenPolicyLink{{ID: policy.ID}}}, nil)
		require.NoError(t, err)
		return made.SecretID
	}
	url := "consul://" + server.Addr()
	t.Setenv("CONSUL_HTTP_TOKEN", "")
	r := check(t, url, "/")
	says(t, r.Servers[0].Findings, "settings", Unknown, "may not read")
	says(t, r.Service, "session", Fail, "Permission denied")

	const (
		jobs    = `key "jobs" { policy = "write" } key_prefix "jobs/" { policy = "write" } key_prefix ".elector/" { policy = "write" } `
		plain   = jobs + `session "elector-sessions" { policy = "write" } `
		first   = plain + `node "elector-sessions" { policy = "write" }`
		checked = jobs + `session_prefix "" { policy = "write" } service "elector" { policy = "write" } agent_prefix "" { policy = "read" } `
	)
	t.Setenv("CONSUL_HTTP_TOKEN", token(plain))
	says(t, check(t, url, "/jobs").Service, "session", Fail, "v1/catalog/register")
	t.Setenv("CONSUL_HTTP_TOKEN", token(first))
	says(t, check(t, url, "/jobs").Service, "node", OK, "external")
	t.Setenv("CONSUL_HTTP_TOKEN", token(checked))
	r = check(t, url+"?check=10s", "/jobs")
	says(t, r.Servers[0].Findings, "autopilot", Unknown, "may not read")
	says(t, r.Service, "rights", OK, "below /jobs")
	t.Setenv("CONSUL_HTTP_TOKEN", token(checked+`operator = "read"`))
	says(t, check(t, url+"?check=10s", "/jobs").Servers[0].Findings, "autopilot", Warn, "two may lead")
	t.Setenv("CONSUL_HTTP_TOKEN", token(plain))
	says(t, check(t, url, "/jobs").Service, "node", Unknown, "may not read")
	says(t, check(t, url, "/elsewhere").Service, "rights", Fail, "may not")
	r = check(t, url, "/jobs")
	says(t, r.Service, "rights", OK, "below /jobs")
	assert.NotEqual(t, Fail, r.Level)

	t.Setenv("CONSUL_HTTP_TOKEN", server.Token())
	r = check(t, url, "/")
	says(t, r.Servers[0].Findings, "role", OK, "server, leader")
	says(t, r.Servers[0].Findings, "connections", Warn, "enough for 8 candidates")
	says(t, r.Service, "session", OK, "15s")
	keys := must.First(operator.KV().Keys("", "", nil))(t)
	assert.Empty(t, keys, "nothing stays behind")

	agent := servertest.ConsulAgentForTest(t, []*servertest.Consul{server}, servertest.ConsulConfig{NoSync: true})
	r = check(t, "consul://"+agent.Addr(), "/")
	says(t, r.Servers[0].Findings, "role", OK, "client agent")
	says(t, r.Service, "rights", OK, "create")
	r = check(t, "consul://"+agent.Addr()+"?check=10s", "/")
	says(t, r.Servers[0].Findings, "leave", Warn, "ends the sessions")

	settings := must.Get(operator.Operator().AutopilotGetConfiguration(nil))(t)
	settings.CleanupDeadServers = false
	require.NoError(t, operator.Operator().AutopilotSetConfiguration(settings, nil))
	says(t, check(t, url+"?check=10s", "/").Servers[0].Findings, "autopilot", OK, "stay")
	_, err := operator.Catalog().Register(&api.CatalogRegistration{Node: consul.SessionNode, ID: "00000000-1111-2222-3333-444444444444", Address: "127.0.0.1"}, nil)
	require.NoError(t, err)
	says(t, check(t, url, "/").Service, "node", Warn, "an agent's")

	require.NoError(t, server.Pause())
	r = check(t, url, "/")
	says(t, r.Servers[0].Findings, "answers", Warn, "does not answer")
	require.NoError(t, server.Kill())
	says(t, check(t, "consul://"+agent.Addr(), "/").Servers[0].Findings, "leader", Warn, "reaches no servers")
	assert.Equal(t, Fail, r.Level)
}

// TestEtcdRights holds that rights are checked where the elections will be, and that nothing stays.
func TestEtcdRights(t *testing.T) {
	server := servertest.EtcdForTest(t, servertest.EtcdConfig{NoSync: true, Args: []string{"--bcrypt-cost=4"}})
	operator := etcdtest.Operator(t, server.Addr())
	do := func(_ any, err error) {
		t.Helper()
		require.NoError(t, err)
	}
	readwrite := clientv3.PermissionType(clientv3.PermReadWrite)
	do(operator.RoleAdd(t.Context(), "jobs"))
	do(operator.RoleGrantPermission(t.Context(), "jobs", "/jobs", "", readwrite))
	do(operator.RoleGrantPermission(t.Context(), "jobs", "/jobs/", clientv3.GetPrefixRangeEnd("/jobs/"), readwrite))
	do(operator.UserAdd(t.Context(), "ann", "right"))
	do(operator.UserGrantRole(t.Context(), "ann", "jobs"))
	do(operator.UserAdd(t.Context(), "root", "root"))
	do(operator.RoleAdd(t.Context(), "root"))
	do(operator.UserGrantRole(t.Context(), "root", "root"))
	do(operator.AuthEnable(t.Context()))
	url := "etcd://" + server.Addr()

	says(t, check(t, url, "/jobs").Service, "session", Fail, "user name is empty")
	t.Setenv("ETCDCTL_USER", "ann:wrong")
	r := check(t, url, "/jobs")
	says(t, r.Servers[0].Findings, "status", Warn, "invalid user ID or password")
	says(t, r.Service, "session", Fail, "invalid user ID or password")
	t.Setenv("ETCDCTL_USER", "ann:right")
	r = check(t, url, "/jobs/deep")
	says(t, r.Service, "rights", OK, "below /jobs/deep")
	says(t, r.Service, "clean", OK, "/jobs stays") // deleting it requires more rights than these
	assert.NotEqual(t, Fail, r.Level)
	says(t, check(t, url, "/").Service, "rights", Fail, "may not")

	t.Setenv("ETCDCTL_USER", "root:root")
	b := must.Get(dial.Open(t.Context(), url))(t)
	defer b.Close()
	s := must.Get(b.Open(t.Context(), backend.OpenOptions{}))(t)
	defer s.Close(t.Context())
	left := must.First(s.Children(t.Context(), "/", 10))(t)
	assert.Equal(t, []string{"/jobs"}, left)
	left = must.First(s.Children(t.Context(), "/jobs", 10))(t)
	assert.Empty(t, left, "nothing else stays behind")
}

func TestEtcdAlarm(t *testing.T) {
	t.Parallel()
	server := servertest.EtcdForTest(t, servertest.EtcdConfig{NoSync: true})
	operator := etcdtest.Operator(t, server.Addr())
	status := must.Get(operator.Status(t.Context(), server.Addr()))(t)
	_, err := pb.NewMaintenanceClient(operator.ActiveConnection()).Alarm(t.Context(), &pb.AlarmRequest{
		Action: pb.AlarmRequest_ACTIVATE, Alarm: pb.AlarmType_NOSPACE, MemberID: status.Header.MemberId,
	})
	require.NoError(t, err)
	r := check(t, "etcd://"+server.Addr(), "/")
	says(t, r.Servers[0].Findings, "space", Fail, "NOSPACE")
	says(t, r.Service, "session", Fail, "space exceeded")
}

// TestTLS holds that candidates' credentials are used with TLS, and that an untrusted certificate is reported.
func TestTLS(t *testing.T) {
	servertest.Long(t, "three servers")
	ca := must.Get(certtest.New())(t)
	files := ca.ForTest(t, "server")
	ports := must.Get(loopback.Ports(3))(t)
	t.Cleanup(func() { loopback.Release(ports...) })
	servertest.EtcdForTest(t, servertest.EtcdConfig{NoSync: true, Listen: []string{fmt.Sprintf("https://127.0.0.1:%d", ports[0])},
		Args: []string{"--cert-file", files.Cert, "--key-file", files.Key}})
	servertest.ConsulForTest(t, servertest.ConsulConfig{NoSync: true, Config: fmt.Sprintf(
		`ports { https = %d } tls { https { cert_file = %q, key_file = %q } }`, ports[1], files.Cert, files.Key)})
	servertest.ZooKeeperForTest(t, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true, Extra: []string{
		fmt.Sprintf("secureClientPort=%d", ports[2]), "secureClientPortAddress=127.0.0.1", "ssl.clientAuth=none",
		"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
		"ssl.keyStore.location=" + files.Both, "ssl.keyStore.type=PEM", "ssl.trustStore.location=" + files.CA, "ssl.trustStore.type=PEM",
	}})
	for i, name := range []string{"ETCDCTL_CACERT", "CONSUL_CACERT", "ZOOKEEPER_CACERT"} {
		scheme := []string{"etcd", "consul", "zk"}[i]
		url := fmt.Sprintf("%s://127.0.0.1:%d?tls=true", scheme, ports[i])
		r := check(t, url, "/")
		says(t, r.Servers[0].Findings, "answers", Warn, "x509: ")
		assert.Equal(t, Fail, r.Level, scheme)
		t.Setenv(name, files.CA)
		r = check(t, url, "/")
		assert.NotEqual(t, Fail, r.Level, "%v", r)
		says(t, r.Service, "rights", OK, "create")
		says(t, r.Servers[0].Findings, "version", OK, ".")
	}
}

// TestBabble holds that a server may say anything, at any length.
func TestBabble(t *testing.T) {
	for _, babble := range []string{"x", "Zookeeper version: \x1b[31m\nMode: \n", "HTTP/1.1 200 OK\r\n\r\n{", strings.Repeat("9", 1<<20), ""} {
		addr := answers(t, func(conn net.Conn, _ []byte) { _, _ = io.WriteString(conn, babble) })
		for _, scheme := range services.Schemes() {
			r := check(t, scheme+"://"+addr, "/")
			assert.Equal(t, Fail, r.Level, "%s %.20q: %v", scheme, babble, r)
		}
	}
}

func TestMemory(t *testing.T) {
	r := check(t, "mem://doctor", "/a/b")
	assert.Equal(t, OK, r.Level, "%v", r)
	b := must.Get(dial.Open(t.Context(), "mem://doctor"))(t)
	s := must.Get(b.Open(t.Context(), backend.OpenOptions{}))(t)
	defer s.Close(t.Context())
	_, err := s.Get(t.Context(), "/a")
	assert.ErrorIs(t, err, backend.ErrNoEntry)

	_, err = Check(t.Context(), "mem://", "a")
	assert.ErrorIs(t, err, backend.ErrBadKey)
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	_, err = Check(ended, "mem://", "/")
	assert.ErrorContains(t, err, "context canceled")
}

func TestRate(t *testing.T) {
	begin := time.Now()
	at := func(after, took time.Duration, service int64) stamp {
		return stamp{begin.Add(after), begin.Add(after + took), service}
	}
	for _, c := range []struct {
		service int64
		took    time.Duration
		level   Level
	}{
		{2000, time.Millisecond, OK},
		{2100, time.Millisecond, Warn},
		{1900, time.Millisecond, Warn},
		{2100, 200 * time.Millisecond, OK}, // it cannot be told
		{1900, 3 * time.Second, OK},
		{-5000, time.Millisecond, Warn},
	} {
		var f Findings
		f.rate(at(0, c.took, 1e12), at(2*time.Second, c.took, 1e12+c.service))
		assert.Equal(t, c.level, f[0].Level, "%v: %v", c, f)
	}
}

func TestCompare(t *testing.T) {
	r := Report{Servers: []*Server{{Address: "a", facts: map[string]string{"cluster": "1", "tickTime": "2000"}}, {Address: "b", facts: map[string]string{"cluster": "2", "tickTime": "2000"}}}}
	r.compare()
	says(t, r.Service, "cluster", Fail, "a has 1, b has 2")
	assert.Len(t, r.Service, 1)
	old := Server{facts: map[string]string{}}
	for version, level := range map[string]Level{"3.4.14": Fail, "3.5.0": OK, "v4": Unknown, "": Unknown, "10.1": OK, "\x1b": Unknown} {
		old.Findings = nil
		old.tellVersion(version, 3, 5)
		assert.Equal(t, level, old.Findings[0].Level, version)
	}
}

// gRPC uses a proxy of the environment, except to this machine.
func TestProxyOfTheEnvironment(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://user:secret@proxy.example:3128")
	t.Setenv("NO_PROXY", "etcd-2.example")
	proxy, ok := throughProxy("etcd-1.example:2379")
	assert.True(t, ok)
	assert.Equal(t, "http://user:xxxxx@proxy.example:3128", proxy)
	for _, direct := range []string{"etcd-2.example:2379", "127.0.0.1:2379", "localhost:2379"} {
		_, ok := throughProxy(direct)
		assert.False(t, ok, direct)
	}
}
