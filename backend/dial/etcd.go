package dial

import (
	"cmp"
	"context"
	"net"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/namespace"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/etcd"
	"github.com/elector-go/elector/internal/environment"
	"github.com/elector-go/elector/internal/etcdclient"
)

// pingAfter is how long a server may be silent before its client asks whether it is there: gRPC takes
// nothing shorter. Where the system offers that, sent data that is not acknowledged ends a connection
// sooner: see DialKeepAliveTimeout below.
const pingAfter = 10 * time.Second

var etcdScheme = Scheme{
	Name: "etcd", Usage: "etcd://host[:port],.../prefix", Port: "2379", Params: []string{"timeout", "tls"},
	Secret: "set ETCDCTL_USER, and ETCDCTL_PASSWORD or ETCDCTL_PASSWORD_FILE", Open: openEtcd,
}

func openEtcd(t *Target) (backend.Backend, func() error, error) {
	var env environment.Reader
	config := env.TLS(t.TLS, environment.Certificates{CA: "ETCDCTL_CACERT", Cert: "ETCDCTL_CERT", Key: "ETCDCTL_KEY"})
	login := readLogin(&env)
	if err := env.Err(); err != nil {
		return nil, nil, err
	}
	scheme := "http://"
	var dialing []grpc.DialOption
	if config != nil {
		scheme, dialing = "https://", append(dialing, grpc.WithTransportCredentials(etcd.TLS(config)))
	}
	var endpoints []string
	for _, server := range t.Servers {
		endpoints = append(endpoints, scheme+server)
	}
	timeout := cmp.Or(t.Timeout, etcd.DefaultSessionTimeout)
	// gRPC's own pauses between attempts to connect grow to two minutes, and a session
	// that was cut off would be lost meanwhile.
	dialing = append(dialing, grpc.WithChainStreamInterceptor(etcd.Calm), grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: timeout / 100, Multiplier: 1.6, Jitter: 0.2, MaxDelay: timeout / 10},
		MinConnectTimeout: max(timeout/3, time.Second),
	}))
	if login != nil {
		dialing = append(dialing, grpc.WithChainUnaryInterceptor(login.unary), grpc.WithChainStreamInterceptor(login.stream))
	}
	if t.DialContext != nil {
		dialing = append(dialing, grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return t.DialContext(ctx, "tcp", address)
		}))
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints, Logger: zap.New(zapCore{t.Logger}),
		DialKeepAliveTime: pingAfter, DialKeepAliveTimeout: max(timeout/3, time.Second),
		DialOptions:     dialing,
		MaxUnaryRetries: 1, // that is one try: sessions know what may be sent again
	})
	if err != nil {
		return nil, nil, err
	}
	if t.Path != "" {
		client.KV = namespace.NewKV(client.KV, t.Path)
		client.Watcher = namespace.NewWatcher(client.Watcher, t.Path)
		client.Lease = namespace.NewLease(client.Lease, t.Path)
	}
	b, err := etcd.New(client, etcd.Config{SessionTimeout: t.Timeout, Logger: t.Logger})
	if err != nil {
		_ = client.Close() // it has not been used
		return nil, nil, err
	}
	return b, func() error { return etcdclient.Close(client, 5*time.Second) }, nil
}
