package tlsfiles_test

import (
	"log"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/tlsfiles"
)

// newConsul makes two clients of an agent, and a backend. The clients' TLSConfig is not set: the transport's
// function takes its place.
func newConsul(agent string, files tlsfiles.Files) (*consul.Backend, error) {
	var clients [2]*api.Client
	for i := range clients {
		config := api.DefaultConfig() // its transport is new
		config.Address, config.Scheme = agent, "https"
		config.Transport.DialTLSContext = files.DialTLSContext
		config.Transport.ForceAttemptHTTP2 = false // over HTTP/2 all requests share a connection, also a dead one
		var err error
		if clients[i], err = api.NewClient(config); err != nil {
			return nil, err
		}
	}
	return consul.New(clients[0], consul.Config{Watches: clients[1]})
}

// Each connection of the clients uses the certificates as they are on disk.
func Example_consul() {
	b, err := newConsul("127.0.0.1:8501",
		tlsfiles.Files{CA: "/etc/pki/ca.pem", Cert: "/etc/pki/client.pem", Key: "/etc/pki/client-key.pem"})
	if err != nil {
		log.Fatal(err)
	}
	_ = b // elector.Config.Backend
}
