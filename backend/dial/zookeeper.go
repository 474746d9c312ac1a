package dial

import (
	"context"
	"net"
	"strings"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper"
)

func openZooKeeper(t *target, o options) (backend.Backend, func() error, error) {
	var env environment
	config, auth := env.tls(t, certificates{"ZOOKEEPER_CACERT", "ZOOKEEPER_CERT", "ZOOKEEPER_KEY"}), env.auth()
	if err := env.err(); err != nil {
		return nil, nil, err
	}
	b, err := zookeeper.New(zookeeper.Config{
		Servers: t.servers, Chroot: t.path, SessionTimeout: t.timeout, TLS: config, Auth: auth, Logger: o.log, Dialer: o.dialer(),
	})
	return b, func() error { return nil }, err // connections are the sessions' own
}

// dialer returns nil if no DialContext was given.
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

// auth reads the credentials. It returns nil if there are none.
func (e *environment) auth() []zookeeper.Auth {
	const name = "ZOOKEEPER_AUTH"
	value := e.secret(name)
	if value == "" {
		return nil
	}
	scheme, credentials, ok := strings.Cut(value, ":")
	if _, _, pair := strings.Cut(credentials, ":"); !ok || scheme == "" || scheme == "digest" && !pair {
		e.fault("%s, or the file of %s_FILE, is not SCHEME:CREDENTIALS, such as digest:user:password", name, name)
	}
	return []zookeeper.Auth{{Scheme: scheme, Credentials: []byte(credentials)}}
}
