package tlsfiles_test

import (
	"log"

	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/tlsfiles"
)

// newZooKeeper makes a backend for servers' secureClientPort.
func newZooKeeper(servers []string, files tlsfiles.Files) (*zookeeper.Backend, error) {
	return zookeeper.New(zookeeper.Config{Servers: servers, GetTLS: files.Config})
}

// Each link of a session uses the certificates as they are on disk.
func Example_zookeeper() {
	b, err := newZooKeeper([]string{"zk1:2281", "zk2:2281", "zk3:2281"},
		tlsfiles.Files{CA: "/etc/pki/ca.pem", Cert: "/etc/pki/client.pem", Key: "/etc/pki/client-key.pem"})
	if err != nil {
		log.Fatal(err)
	}
	_ = b // elector.Config.Backend
}
