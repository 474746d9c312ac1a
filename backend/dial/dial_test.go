package dial_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/dial"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/wait"
)

// open opens a URL, and closes it at the end of the test.
func open(t *testing.T, url string, opts ...dial.Option) *dial.Backend {
	t.Helper()
	b := must.Get(dial.Open(t.Context(), url, opts...))(t)
	t.Cleanup(func() { assert.NoError(t, b.Close()) })
	return b
}

func TestAccepted(t *testing.T) {
	for url, name := range map[string]string{
		"zk://127.0.0.1:1": "zookeeper",
		"zk://h":           "zookeeper",
		"zk://h/":          "zookeeper",
		"zk://h1:2181,h2,[::1]:2181,[fe80::1]/a/b%20%40?timeout=3s&tls=true": "zookeeper",
		"etcd://127.0.0.1:1":                      "etcd",
		"etcd://h1:2379,h2/a/b?timeout=3s":        "etcd",
		"etcd://[::1]?tls=true":                   "etcd",
		"consul://127.0.0.1":                      "consul",
		"consul://Node_1.example:80/?timeout=15s": "consul",
		"consul://h:80?check=2s&tls=false":        "consul",
		"mem://":                                  "memory",
		"mem://some-name.1_":                      "memory",
	} {
		assert.Equal(t, name, open(t, url).String(), url)
	}
}

// TestServers checks that each server of a URL has a URL of its own, which Open takes.
func TestServers(t *testing.T) {
	for url, want := range map[string][]dial.Server{
		"zk://h1,[::1]:99/a%20b?timeout=3s": {{"h1:2181", "zk://h1:2181/a%20b?timeout=3s"}, {"[::1]:99", "zk://[::1]:99/a%20b?timeout=3s"}},
		"etcd://h1:1,h2?timeout=3s":         {{"h1:1", "etcd://h1:1?timeout=3s"}, {"h2:2379", "etcd://h2:2379?timeout=3s"}},
		"consul://h":                        {{"h:8500", "consul://h:8500"}},
		"mem://name":                        nil,
	} {
		got := must.Get(dial.Servers(url))(t)
		assert.Equal(t, want, got)
		for _, s := range got {
			open(t, s.URL)
		}
	}
	_, err := dial.Servers("zk://h,")
	assert.ErrorContains(t, err, "a host is missing")
}

func TestRefused(t *testing.T) {
	const nonsense = "there are zk://, etcd://, consul://, mem://"
	for _, c := range []struct{ url, says string }{
		{"", nonsense},
		{"nonsense", `"nonsense" is not a URL: ` + nonsense},
		{"127.0.0.1:2181?a=b", `"127.0.0.1:2181" is not a URL: ` + nonsense},
		{"redis://h", `unknown scheme "redis": ` + nonsense},
		{"ZK://h", `unknown scheme "ZK": ` + nonsense},
		{"://h", `unknown scheme "": ` + nonsense},
		{"nats://h", nonsense + `; this program lacks import _ "github.com/elector-go/elector/backend/nats/dialnats", which brings nats://`},
		{"k8s://a/b", `import _ "github.com/elector-go/elector/backend/kubernetes/dialkubernetes"`},

		{"zk://me:secret@h:1", "set ZOOKEEPER_AUTH or ZOOKEEPER_AUTH_FILE"},
		{"zk://me:sec/ret@h:1", "ZOOKEEPER_AUTH"},
		{"etcd://me:secret@h:1", "set ETCDCTL_USER, and ETCDCTL_PASSWORD"},
		{"consul://secret@h:1", "CONSUL_HTTP_TOKEN"},
		{"mem://secret@h", "nobody to show them to"},
		{"redis://secret@h", "leave them out"},
		{"secret@h", "leave them out"},
		{"zk://h/a@b", `%40 for "@"`},

		{"zk://", "a host is missing: give host or host:port, such as 127.0.0.1:2181"},
		{"etcd://", "such as 127.0.0.1:2379"},
		{"consul://?timeout=10s", "such as 127.0.0.1:8500"},
		{"zk:///a", "a host is missing"},
		{"zk://h1,,h2", "a host is missing"},
		{"zk://h1,", "a host is missing"},
		{"zk://:2181", `host ":2181": the host is missing before the port`},
		{"zk://[]:2181", "the host is missing before the port"},
		{"zk://h:", `port "" is not a number from 1 to 65535`},
		{"zk://h:0", `port "0"`},
		{"zk://h1,h2:65536", `host "h2:65536": port "65536"`},
		{"etcd://h:-1", `port "-1"`},
		{"consul://h:+80", `port "+80"`},
		{"etcd://h:http", `port "http"`},
		{"zk://h:1:2", `host "h:1:2": neither a host name nor an address`},
		{"zk://a b", "neither a host name nor an address"},
		{"zk://[h]:1", "neither a host name nor an address"},
		{"zk://[127.0.0.1]:1", "neither a host name nor an address"},
		{"zk://[::1", "neither a host name nor an address"},
		{"zk://hôte", "neither a host name nor an address"},
		{"zk://::1", "an IPv6 address stands in brackets: [::1]:2181"},

		{"zk://h/a/", "path: " + `key "/a/" has an empty segment`},
		{"zk://h//a", "has an empty segment"},
		{"etcd://h/a/../b", `has the segment ".."`},
		{"etcd://h/%zz", `path: invalid URL escape "%zz"`},
		{"zk://h/%00", "has the character U+0000"},
		{"zk://h/a#b", `a path has %23 for it`},
		{"consul://h/a", "put it into the election's name"},
		{"consul://h1,h2", "name one agent"},
		{"mem://a/b", "takes no path"},
		{"mem:///", "there is no path after the slash"},
		{"mem://a:1", `name "a:1": letters, digits, dots, dashes and underscores only`},

		{"zk://h?timeuot=3s", `unknown parameter "timeuot": there are timeout, tls`},
		{"etcd://h?check=2s", `unknown parameter "check": there are timeout, tls`},
		{"consul://h?token=secret", `unknown parameter "token": there are check, timeout, tls`},
		{"mem://?timeout=3s", `unknown parameter "timeout": there are none`},
		{"zk://h?timeout=3s&timeout=4s", `parameter "timeout" is given 2 times`},
		{"zk://h?timeout=3", `parameter "timeout" is "3": give a duration above zero, such as 10s`},
		{"zk://h?timeout", `parameter "timeout" is ""`},
		{"zk://h?timeout=-3s", `parameter "timeout" is "-3s"`},
		{"etcd://h?timeout=0", `parameter "timeout" is "0"`},
		{"consul://h?check=soon", `parameter "check" is "soon"`},
		{"zk://h?tls=yes", `parameter "tls" is "yes": give true or false`},
		{"zk://h?a;b", "invalid semicolon"},
		{"zk://h?%zz=1", `parameters: invalid URL escape "%zz"`},

		// What a backend refuses is passed on.
		{"zk://h?timeout=1ms", "SessionTimeout"},
		{"consul://h?timeout=1s", "SessionTimeout"},
		{"etcd://h?timeout=999999h", "SessionTimeout"},
	} {
		b, err := dial.Open(t.Context(), c.url)
		assert.Nil(t, b, c.url)
		assert.ErrorContains(t, err, c.says, c.url)
		if err != nil {
			assert.NotContains(t, err.Error(), "secret", c.url)
			assert.True(t, strings.HasPrefix(err.Error(), "dial"), err)
		}
	}
}

// TestAllAtOnce checks that Open reports all that is wrong at once.
func TestAllAtOnce(t *testing.T) {
	_, err := dial.Open(t.Context(), "zk://h:0,:1/a/?timeout=x&tls=x&x=x")
	for _, says := range []string{`port "0"`, "before the port", "empty segment", `"timeout"`, `"tls"`, `unknown parameter "x"`} {
		assert.ErrorContains(t, err, says)
	}
}

func TestEndedContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b, err := dial.Open(ctx, "mem://")
	assert.Nil(t, b)
	assert.ErrorIs(t, err, context.Canceled)
}

// TestClose checks that Close may be called twice, and on nil.
func TestClose(t *testing.T) {
	for _, url := range []string{"zk://h", "etcd://h/a", "consul://h", "mem://"} {
		b := must.Get(dial.Open(t.Context(), url, dial.WithLogger(slog.Default())))(t)
		assert.NoError(t, b.Close(), url)
		assert.NoError(t, b.Close(), url)
	}
	var none *dial.Backend
	assert.NoError(t, none.Close())
}

// TestLogger checks that the messages of etcd's client go to the given logger.
func TestLogger(t *testing.T) {
	said, log := listen(t)
	b := open(t, "etcd://127.0.0.1:1", dial.WithLogger(log))
	ctx, cancel := context.WithCancel(t.Context())
	opening := wait.Later(func() (*backend.Session, error) { return b.Open(ctx, backend.OpenOptions{}) })
	wait.For(t, "it says something", func() bool { return said.Has("\n") })
	cancel()
	assert.Error(t, (<-opening).Err)
	line, _, _ := strings.Cut(said.String(), "\n")
	assert.Contains(t, line, "level=DEBUG")
	assert.Contains(t, line, `msg="etcd client: retrying`)
	assert.Contains(t, line, "method=/etcdserverpb.Lease/LeaseGrant")
}

// TestConsulEnvironment checks that a wrong setting in the environment is an error.
func TestConsulEnvironment(t *testing.T) {
	t.Setenv("CONSUL_CACERT", "/no/such/file")
	_, err := dial.Open(t.Context(), "consul://h")
	assert.ErrorContains(t, err, "/no/such/file")
}

// FuzzOpen checks that every URL gives either an error or a backend, without panic and without a goroutine
// that Close leaves behind.
func FuzzOpen(f *testing.F) {
	for _, url := range []string{
		"mem://name", "zk://h1:2181,h2:2181/chroot?timeout=10s", "etcd://h1:2379,[::1]:2379/prefix?tls=true",
		"etcd://[fe80::1%25eth0]", "consul://127.0.0.1:8500?check=2s", "zk://me:secret@h", "zk://h/%20?timeout=1s&timeout=2s", "x",
	} {
		f.Add(url)
	}
	f.Fuzz(func(t *testing.T, url string) {
		b, err := dial.Open(context.Background(), url, dial.WithLogger(nil))
		require.NotEqual(t, err == nil, b == nil, "%q: %v, %v", url, b, err)
		if err == nil {
			assert.NotEmpty(t, b.String(), url)
			assert.Positive(t, b.Limits().DefaultTTL, url)
		}
		assert.NoError(t, b.Close(), url)
	})
}

// leases is the part of an etcd server that Open needs.
type leases struct {
	etcdserverpb.UnimplementedLeaseServer
	asked atomic.Int64
}

func (l *leases) LeaseGrant(context.Context, *etcdserverpb.LeaseGrantRequest) (*etcdserverpb.LeaseGrantResponse, error) {
	l.asked.Add(1)
	return nil, status.Error(codes.Canceled, "a proxy's trouble")
}

// serveEtcd serves the parts of an etcd server that register registers, and returns its URL.
func serveEtcd(t *testing.T, register func(*grpc.Server)) (url string) {
	t.Helper()
	server := grpc.NewServer()
	register(server)
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	go func() { _ = server.Serve(listener) }() // until it is stopped
	t.Cleanup(server.Stop)
	return "etcd://" + listener.Addr().String()
}

// The client never repeats by itself a request that may have been done.
func TestEtcdRequestsAreSentOnce(t *testing.T) {
	var l leases
	url := serveEtcd(t, func(s *grpc.Server) { etcdserverpb.RegisterLeaseServer(s, &l) })
	require.ErrorIs(t, must.Err(open(t, url).Open(t.Context(), backend.OpenOptions{TTL: time.Minute})), backend.ErrUnavailable)
	assert.EqualValues(t, 1, l.asked.Load())
}

// broken is a proxy that answers requests, and fails each watch.
type broken struct {
	etcdserverpb.UnimplementedLeaseServer
	etcdserverpb.UnimplementedKVServer
	etcdserverpb.UnimplementedWatchServer
	watches chan struct{}
}

func (*broken) LeaseGrant(_ context.Context, r *etcdserverpb.LeaseGrantRequest) (*etcdserverpb.LeaseGrantResponse, error) {
	return &etcdserverpb.LeaseGrantResponse{Header: &etcdserverpb.ResponseHeader{Revision: 1}, ID: 1, TTL: r.TTL}, nil
}

func (*broken) Txn(_ context.Context, r *etcdserverpb.TxnRequest) (*etcdserverpb.TxnResponse, error) {
	answer := &etcdserverpb.TxnResponse{Header: &etcdserverpb.ResponseHeader{Revision: 1}, Succeeded: true}
	for range r.Success {
		answer.Responses = append(answer.Responses, &etcdserverpb.ResponseOp{
			Response: &etcdserverpb.ResponseOp_ResponseRange{ResponseRange: &etcdserverpb.RangeResponse{}},
		})
	}
	return answer, nil
}

func (b *broken) Watch(stream etcdserverpb.Watch_WatchServer) error {
	select {
	case b.watches <- struct{}{}:
	case <-stream.Context().Done():
	}
	return status.Error(codes.Internal, "a proxy's trouble")
}

// A watch that a proxy fails with Internal is made again with pauses.
func TestEtcdWatchesTakePauses(t *testing.T) {
	b := &broken{watches: make(chan struct{})}
	url := serveEtcd(t, func(s *grpc.Server) {
		etcdserverpb.RegisterLeaseServer(s, b)
		etcdserverpb.RegisterKVServer(s, b)
		etcdserverpb.RegisterWatchServer(s, b)
	})
	s := must.Get(open(t, url).Open(t.Context(), backend.OpenOptions{TTL: time.Minute}))(t)
	cancelled, cancel := context.WithCancel(t.Context())
	defer cancel()
	waiting := wait.Later(func() ([]backend.Entry, error) { return s.Await(cancelled, backend.Entry{Key: "/a"}) })
	wait.Receive(t, "a watch", b.watches)
	began := time.Now()
	for range 40 { // without pauses they take some milliseconds
		wait.Receive(t, "another watch", b.watches)
	}
	assert.Greater(t, time.Since(began), time.Second)
	cancel()
	wait.Fails(t, waiting, context.Canceled)
	_ = s.Close(cancelled) // nobody is there to confirm it
}

// TestRegister checks that another package can bring a scheme, that it gets what the URL and the options say, and
// that help texts and errors name it.
func TestRegister(t *testing.T) {
	var got dial.Target
	name := fmt.Sprint("invented-", time.Now().UnixNano()) // each name can be registered once
	s := dial.Scheme{
		Name: name, Usage: name + "://namespace/name", Params: []string{"timeout", "color"}, Secret: "set INVENTED",
		Open: func(t *dial.Target) (backend.Backend, func() error, error) {
			got = *t
			return memory.New(memory.Options{}), func() error { return errors.New("closed") }, nil
		},
	}
	dial.Register(s)
	assert.Contains(t, dial.Schemes(), name)
	assert.Contains(t, dial.Usage(), ", or "+s.Usage+"; ")

	dialer := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no") }
	b := must.Get(dial.Open(t.Context(), name+"://ns.1/some%20name?timeout=3s&color=red", dial.WithDialContext(dialer)))(t)
	assert.Equal(t, "ns.1", got.Name)
	assert.Equal(t, "/some name", got.Path)
	assert.Equal(t, 3*time.Second, got.Timeout)
	assert.Equal(t, map[string]string{"color": "red"}, got.Params)
	assert.NotNil(t, got.Logger)
	assert.NotNil(t, got.DialContext)
	assert.ErrorContains(t, b.Close(), "closed")

	for url, says := range map[string]string{
		name + "://me:secret@h":  "set INVENTED",
		name + "://a/b?tls=true": `unknown parameter "tls": there are timeout, color`,
		name + "://a:1/b":        `name "a:1"`,
		"nonsense://":            ", " + name + "://",
	} {
		_, err := dial.Open(t.Context(), url)
		assert.ErrorContains(t, err, says, url)
	}
	assert.PanicsWithValue(t, fmt.Sprintf("dial: Register of %q: the scheme is registered already", name), func() { dial.Register(s) })
	assert.PanicsWithValue(t, `dial: Register of "etcd": the scheme is registered already`, func() { s.Name = "etcd"; dial.Register(s) })
	assert.PanicsWithValue(t, `dial: Register of "x": Name, Usage, Secret or Open is missing`, func() { dial.Register(dial.Scheme{Name: "x"}) })
}
