package dial

import (
	"context"
	"net"
	"strings"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/internal/environment"
)

var zooKeeperScheme = Scheme{
	Name: "zk", Usage: "zk://host[:port],.../chroot", Port: "2181", Params: []string{"timeout", "tls"},
	Secret: "set ZOOKEEPER_AUTH or ZOOKEEPER_AUTH_FILE", Open: openZooKeeper,
}

func openZooKeeper(t *Target) (backend.Backend, func() error, error) {
	var env environment.Reader
	config := env.TLS(t.TLS, environment.Certificates{CA: "ZOOKEEPER_CACERT", Cert: "ZOOKEEPER_CERT", Key: "ZOOKEEPER_KEY"})
	auth := readAuth(&env)
	if err := env.Err(); err != nil {
		return nil, nil, err
	}
	b, err := zookeeper.New(zookeeper.Config{
		Servers: t.Servers, Chroot: t.Path, SessionTimeout: t.Timeout, GetTLS: config, Auth: auth, Logger: t.Logger, Dialer: dialer(t.DialContext),
	})
	return b, func() error { return nil }, err // connections are the sessions' own
}

// dialer returns nil if no DialContext was given.
func dialer(dial DialContext) zookeeper.Dialer {
	if dial == nil {
		return nil
	}
	return func(network, address string, timeout time.Duration) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		return dial(ctx, network, address)
	}
}

// readAuth reads the credentials. It returns nil if there are none.
func readAuth(e *environment.Reader) []zookeeper.Auth {
	const name = "ZOOKEEPER_AUTH"
	value := e.Secret(name)
	if value == "" {
		return nil
	}
	scheme, credentials, ok := strings.Cut(value, ":")
	if _, _, pair := strings.Cut(credentials, ":"); !ok || scheme == "" || scheme == "digest" && !pair {
		e.Fault("%s, or the file of %s_FILE, is not SCHEME:CREDENTIALS, such as digest:user:password", name, name)
	}
	return []zookeeper.Auth{{Scheme: scheme, Credentials: []byte(credentials)}}
}
