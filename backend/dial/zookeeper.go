package dial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
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
	auth, sasl, jaas := readAuth(&env)
	name, given := t.Params["sasl"]
	switch {
	case given && !plain(name): // it may have a password
		env.Fault("the URL's sasl is no name of a mechanism; users and passwords have no place in a URL: set %s or %s_FILE", authVariable, authVariable)
	case given && sasl != nil:
		env.Fault("%s has credentials for SASL, and the URL says sasl=%s: leave one of them out", authVariable, name)
	case given || jaas != nil:
		var err error
		if sasl, err = openSASL(cmp.Or(name, "gssapi"), jaas); err != nil {
			env.Fault("sasl=%s: %w", cmp.Or(name, "gssapi"), err)
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

// readAuth reads the credentials. Those of the scheme sasl are for DIGEST-MD5: servers take no others of that scheme.
// For jaas see parseAuth.
func readAuth(e *environment.Reader) (auth []zookeeper.Auth, sasl zookeeper.SASL, jaas map[string]string) {
	value := e.Secret(authVariable)
	if value == "" {
		return nil, nil, nil
	}
	scheme, credentials, jaas, err := parseAuth(value)
	switch {
	case err != nil:
		e.Fault("%s, or the file of %s_FILE, %w", authVariable, authVariable, err)
		return nil, nil, nil
	case jaas != nil:
		return nil, nil, jaas
	case scheme != "sasl":
		return []zookeeper.Auth{{Scheme: scheme, Credentials: []byte(credentials)}}, nil, nil
	}
	user, password, _ := strings.Cut(credentials, ":")
	if path := os.Getenv(authVariable + "_FILE"); path != "" {
		return nil, passwordFile{path, user}, nil
	}
	return nil, zookeeper.DigestMD5(user, password), nil
}

// parseAuth parses SCHEME:CREDENTIALS, or a JAAS file, of which jaas has the options if the module is for Kerberos.
func parseAuth(text string) (scheme, credentials string, jaas map[string]string, err error) {
	if begin := beginJAAS.FindStringIndex(text); begin != nil {
		module, options, err := parseJAAS(text[begin[1]:])
		switch {
		case err != nil:
			return "", "", nil, fmt.Errorf("is no JAAS file: %w", err)
		case module == "Krb5LoginModule":
			return "", "", options, nil
		case module != "DigestLoginModule":
			return "", "", nil, errors.New("is a JAAS file with another module than DigestLoginModule and Krb5LoginModule")
		}
		text = "sasl:" + options["username"] + ":" + options["password"]
	}
	scheme, credentials, ok := strings.Cut(text, ":")
	user, password, pair := strings.Cut(credentials, ":")
	if !ok || scheme == "" || (scheme == "digest" || scheme == "sasl") && !(pair && user != "" && password != "") {
		return "", "", nil, errors.New("is not SCHEME:CREDENTIALS, such as digest:user:password or sasl:user:password, and no JAAS file with a section Client")
	}
	return scheme, credentials, nil, nil
}

// passwordFile is DIGEST-MD5 with the password that a file has when a link is made.
type passwordFile struct{ path, user string }

func (f passwordFile) String() string { return zookeeper.DigestMD5(f.user, "").String() }

// Start implements zookeeper.SASL.
func (f passwordFile) Start(ctx context.Context, host string) (zookeeper.Exchange, error) {
	text, err := os.ReadFile(f.path)
	if err != nil {
		return nil, err
	}
	scheme, credentials, _, err := parseAuth(environment.TrimNewline(string(text)))
	user, password, _ := strings.Cut(credentials, ":")
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s %w", f.path, err)
	case scheme != "sasl" || user != f.user:
		return nil, fmt.Errorf("%s has another user than it had at the start: start again", f.path)
	}
	return zookeeper.DigestMD5(user, password).Start(ctx, host)
}

// mechanisms are those of RegisterSASL.
var mechanisms struct {
	sync.Mutex
	open map[string]func(jaas map[string]string) (zookeeper.SASL, error)
}

// RegisterSASL makes a mechanism known to URLs of ZooKeeper, as sasl=name. open takes its credentials from the
// environment and from files, and its error contains no secret; it does not connect and does not block. jaas has the
// options of Krb5LoginModule if ZOOKEEPER_AUTH_FILE is a JAAS file with one.
// RegisterSASL panics if the name is taken. A program imports the package that calls it, as for [Register]:
//
//	import _ "github.com/elector-go/elector/backend/zookeeper/kerberos/dialkerberos"
func RegisterSASL(name string, open func(jaas map[string]string) (zookeeper.SASL, error)) {
	mechanisms.Lock()
	defer mechanisms.Unlock()
	if mechanisms.open[name] != nil {
		panic(fmt.Sprintf("dial: RegisterSASL of %q: the mechanism is registered already", name))
	}
	if mechanisms.open == nil {
		mechanisms.open = make(map[string]func(map[string]string) (zookeeper.SASL, error))
	}
	mechanisms.open[name] = open
}

func openSASL(name string, jaas map[string]string) (zookeeper.SASL, error) {
	mechanisms.Lock()
	open := mechanisms.open[name]
	mechanisms.Unlock()
	switch {
	case open != nil:
		return open(jaas)
	case name == "gssapi":
		return nil, errors.New(`this program lacks import _ "github.com/elector-go/elector/backend/zookeeper/kerberos/dialkerberos", which brings it`)
	}
	return nil, fmt.Errorf("unknown mechanism: there is gssapi; for DIGEST-MD5 leave it out, and set %s to sasl:user:password", authVariable)
}
