package dial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/internal/environment"
)

var zooKeeperScheme = Scheme{
	Name: "zk", Usage: "zk://host[:port],.../chroot", Port: "2181", Params: []string{"timeout", "tls", "sasl"},
	Secret: "set ZOOKEEPER_AUTH or ZOOKEEPER_AUTH_FILE", Open: openZooKeeper,
}

func openZooKeeper(t *Target) (backend.Backend, func() error, error) {
	var env environment.Reader
	config := env.TLS(t.TLS, environment.Certificates{CA: "ZOOKEEPER_CACERT", Cert: "ZOOKEEPER_CERT", Key: "ZOOKEEPER_KEY"})
	auth, sasl := readAuth(&env)
	switch name, given := t.Params["sasl"]; {
	case given && !plain(name): // it may have a password
		env.Fault("the URL's sasl is no name of a mechanism; users and passwords have no place in a URL: set %s or %s_FILE", authVariable, authVariable)
	case given:
		if sasl != nil {
			env.Fault("%s has credentials for SASL, and the URL says sasl=%s: leave one of them out", authVariable, name)
		}
		var err error
		if sasl, err = openSASL(name); err != nil {
			env.Fault("sasl=%s: %w", name, err)
		}
	}
	if err := env.Err(); err != nil {
		return nil, nil, err
	}
	b, err := zookeeper.New(zookeeper.Config{
		Servers: t.Servers, Chroot: t.Path, SessionTimeout: t.Timeout, GetTLS: config, Auth: auth, SASL: sasl, Logger: t.Logger, Dialer: dialer(t.DialContext),
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

const authVariable = "ZOOKEEPER_AUTH"

// readAuth reads the credentials. It returns nil if there are none. Those of the scheme sasl are for DIGEST-MD5:
// servers take no others of that scheme.
func readAuth(e *environment.Reader) ([]zookeeper.Auth, zookeeper.SASL) {
	value := e.Secret(authVariable)
	if value == "" {
		return nil, nil
	}
	scheme, credentials, ok := strings.Cut(value, ":")
	user, password, pair := strings.Cut(credentials, ":")
	pair = pair && user != "" && password != ""
	if !ok || scheme == "" || (scheme == "digest" || scheme == "sasl") && !pair {
		e.Fault("%s, or the file of %s_FILE, is not SCHEME:CREDENTIALS, such as digest:user:password or sasl:user:password", authVariable, authVariable)
	}
	if scheme == "sasl" {
		return nil, zookeeper.DigestMD5(user, password)
	}
	return []zookeeper.Auth{{Scheme: scheme, Credentials: []byte(credentials)}}, nil
}

// mechanisms are those of RegisterSASL.
var mechanisms struct {
	sync.Mutex
	open map[string]func() (zookeeper.SASL, error)
}

// RegisterSASL makes a mechanism known to URLs of ZooKeeper, as sasl=name. open takes its credentials from the
// environment and from files, and its error contains no secret; it does not connect and does not block.
// RegisterSASL panics if the name is taken. A program imports the package that calls it, as for [Register]:
//
//	import _ "github.com/elector-go/elector/backend/zookeeper/kerberos/dialkerberos"
func RegisterSASL(name string, open func() (zookeeper.SASL, error)) {
	mechanisms.Lock()
	defer mechanisms.Unlock()
	if mechanisms.open[name] != nil {
		panic(fmt.Sprintf("dial: RegisterSASL of %q: the mechanism is registered already", name))
	}
	if mechanisms.open == nil {
		mechanisms.open = make(map[string]func() (zookeeper.SASL, error))
	}
	mechanisms.open[name] = open
}

func openSASL(name string) (zookeeper.SASL, error) {
	mechanisms.Lock()
	open := mechanisms.open[name]
	mechanisms.Unlock()
	switch {
	case open != nil:
		return open()
	case name == "gssapi":
		return nil, errors.New(`this program lacks import _ "github.com/elector-go/elector/backend/zookeeper/kerberos/dialkerberos", which brings it`)
	}
	return nil, fmt.Errorf("unknown mechanism: there is gssapi; for DIGEST-MD5 leave it out, and set %s to sasl:user:password", authVariable)
}
