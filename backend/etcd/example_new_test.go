package etcd_test

import (
	"crypto/tls"
	"log"
	"log/slog"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/etcd"
	"github.com/elector-go/elector/strategy/fair"
)

// This example makes a client and a backend for production: a cluster of three, with a user and
// password, TLS, and all client settings that matter to sessions.
func ExampleNew() {
	const timeout = 10 * time.Second
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"https://etcd1:2379", "https://etcd2:2379", "https://etcd3:2379"},
		Username:  "elector", // docs/settings.md lists the rights that it needs
		Password:  os.Getenv("ETCD_PASSWORD"),
		// With a password New asks a server for a token, and without DialTimeout it blocks until one
		// answers.
		DialTimeout: timeout,
		TLS:         &tls.Config{MinVersion: tls.VersionTLS12}, // RootCAs and Certificates, if you have your own

		// After so long a silence the client asks whether the server is there. gRPC raises shorter
		// times to 10 s.
		DialKeepAliveTime: 10 * time.Second,
		// How long it waits for the reply; on Linux also for the acknowledgement of what it has sent,
		// which detects a dead link much sooner.
		DialKeepAliveTimeout: timeout / 3,
		DialOptions: []grpc.DialOption{
			// Otherwise the pauses between attempts to connect grow to two minutes.
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: timeout / 100, Multiplier: 1.6, Jitter: 0.2, MaxDelay: timeout / 10},
				MinConnectTimeout: timeout / 3,
			}),
			// Behind a proxy.
			grpc.WithChainStreamInterceptor(etcd.Calm),
		},
		MaxUnaryRetries: 1, // one try: sessions know what may be sent again
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close() // after the elector; it may block: see docs/backends.md
	b, err := etcd.New(client, etcd.Config{SessionTimeout: timeout, Logger: slog.Default()})
	if err != nil {
		log.Fatal(err)
	}
	e, err := elector.New(elector.Config{
		Backend: b, Strategy: fair.Strategy{}, Election: "/jobs/reindex", ID: "host-1", Logger: slog.Default(),
	})
	if err != nil {
		log.Fatal(err)
	}
	_ = e // elector.Run, and Close at the end
}
