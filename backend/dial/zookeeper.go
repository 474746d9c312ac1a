package dial

import (
	"crypto/tls"

	"github.com/elector-go/elector/backend/zookeeper"
)

func openZooKeeper(t *target, o options) (*Backend, error) {
	b, err := zookeeper.New(zookeeper.Config{
		Servers: t.servers, Chroot: t.path, SessionTimeout: t.timeout, TLS: t.tlsConfig(), Logger: o.log,
	})
	if err != nil {
		return nil, err
	}
	return opened(b, nil), nil // connections are the sessions' own
}

// tlsConfig is nil where TLS is not wanted.
func (t *target) tlsConfig() *tls.Config {
	if t.tls == nil || !*t.tls {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12}
}
