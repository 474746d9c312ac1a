package zookeeper_test

import (
	"crypto/tls"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/strategy/fair"
)

// A backend for production: an ensemble of three, with a user and password, and TLS. The backend opens
// its connections itself, one per session.
func ExampleNew() {
	b, err := zookeeper.New(zookeeper.Config{
		Servers:        []string{"zk1:2281", "zk2:2281", "zk3:2281"}, // secureClientPort; 2181 without TLS
		SessionTimeout: 10 * time.Second,
		Chroot:         "/teams/search", // created if it is missing; the same for all candidates
		// The user of all candidates. Only this user may access what they create, unless ACL says
		// otherwise.
		Auth:   []zookeeper.Auth{zookeeper.Digest("elector", os.Getenv("ZK_PASSWORD"))},
		TLS:    &tls.Config{MinVersion: tls.VersionTLS12}, // RootCAs and Certificates, if you use your own
		Logger: slog.Default(),
	})
	if err != nil {
		log.Fatal(err)
	}
	e, err := elector.New(elector.Config{
		Backend: b, Strategy: fair.Strategy{}, Election: "/jobs/reindex", ID: "host-1", Logger: slog.Default(),
	})
	if err != nil {
		log.Fatal(err)
	}
	_ = e // elector.Run, and Close at the end; the backend itself has nothing to close
}
