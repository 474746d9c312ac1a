package dial

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/elector-go/elector/backend/zookeeper"
)

func openZooKeeper(t *target, o options) (*Backend, error) {
	b, err := zookeeper.New(zookeeper.Config{
		Servers: t.servers, Chroot: t.path, SessionTimeout: t.timeout, TLS: t.tlsConfig(), Logger: o.log, Dialer: o.dialer(),
	})
	if err != nil {
		return nil, err
	}
	return opened(b, nil), nil // connections are the sessions' own
}

// dialer is nil where nothing is said about how to connect.
func (o options) dialer() zookeeper.Dialer {
	if o.dial == nil {
		return nil
	}
	return func(network, address string, timeout time.Duration) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		return o.dial(ctx, network, address)
	}
}

// tlsConfig is nil where TLS is not wanted.
func (t *target) tlsConfig() *tls.Config {
	if t.tls == nil || !*t.tls {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12}
}
