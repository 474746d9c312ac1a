package consul_test

import (
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/strategy/fair"
)

// This example makes a backend for production: the agent on this machine, with an ACL token and TLS.
// Waits have their own connections, so that they never take those of the heartbeats.
func ExampleNew() {
	newClient := func() (*api.Client, error) {
		config := api.DefaultConfig() // with the environment's settings, such as CONSUL_HTTP_TOKEN; its transport is new
		config.Address, config.Scheme = "127.0.0.1:8501", "https"
		config.Token = os.Getenv("ELECTOR_TOKEN") // docs/settings.md has its policy
		config.TLSConfig = api.TLSConfig{CAFile: "/etc/consul/ca.pem", CertFile: "/etc/consul/client.pem", KeyFile: "/etc/consul/client-key.pem"}
		// No Timeout of an HttpClient: a wait is a request that is answered late.
		return api.NewClient(config)
	}
	client, err := newClient()
	if err != nil {
		log.Fatal(err)
	}
	watches, err := newClient()
	if err != nil {
		log.Fatal(err)
	}
	b, err := consul.New(client, consul.Config{
		SessionTimeout: 15 * time.Second,
		Check:          3 * time.Second, // for failover in seconds; docs/backends.md has the cost
		Watches:        watches,
		Logger:         slog.Default(),
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
	_ = e // elector.Run, and Close at the end
}
