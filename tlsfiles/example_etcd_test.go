package tlsfiles_test

import (
	"log"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/elector-go/elector/backend/etcd"
	"github.com/elector-go/elector/tlsfiles"
)

// newEtcd makes a client and a backend. The client's TLS is not set: the dial option takes its place.
func newEtcd(endpoints []string, timeout time.Duration, files tlsfiles.Files) (*clientv3.Client, *etcd.Backend, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints,
		DialOptions: []grpc.DialOption{
			grpc.WithTransportCredentials(etcd.TLS(files.Config)),
			// The other settings are those of etcd.New's example.
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: timeout / 100, Multiplier: 1.6, Jitter: 0.2, MaxDelay: timeout / 10},
				MinConnectTimeout: timeout / 3,
			}),
		},
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: timeout / 3, MaxUnaryRetries: 1,
	})
	if err != nil {
		return nil, nil, err
	}
	b, err := etcd.New(client, etcd.Config{SessionTimeout: timeout})
	return client, b, err
}

// Each connection of the client uses the certificates as they are on disk.
func Example_etcd() {
	client, b, err := newEtcd([]string{"https://etcd1:2379", "https://etcd2:2379", "https://etcd3:2379"}, 10*time.Second,
		tlsfiles.Files{CA: "/etc/pki/ca.pem", Cert: "/etc/pki/client.pem", Key: "/etc/pki/client-key.pem"})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	_ = b // elector.Config.Backend
}
