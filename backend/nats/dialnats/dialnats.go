// Package dialnats brings the scheme nats:// to package dial. A program imports it for that alone:
//
//	import _ "github.com/elector-go/elector/backend/nats/dialnats"
//
// A URL names servers of one cluster, and a bucket, which must exist. All candidates of an election must use the
// same bucket and key:
//
//	nats://h1:4222,h2:4222/bucket?timeout=10s       the key "elector" of the bucket
//	nats://h1/bucket/key                            another key
//
// A host without a port gets 4222. The parameters are timeout and tls, as package dial has them. Servers say
// themselves whether they want TLS: tls=true refuses those that offer none, and tls=false leaves out the
// certificates below.
//
// Credentials come from the environment and from files, by the names that the command nats uses:
//
//	NATS_CREDS                                          file with credentials (a JWT and its key)
//	NATS_NKEY                                           file with the seed of an NKEY
//	NATS_USER, NATS_PASSWORD or NATS_PASSWORD_FILE      user and password; without a password the user is a token
//	NATS_CA, NATS_CERT, NATS_KEY                        PEM files: the authority, the client's certificate, its key
//
// The client connects when the first session is opened, and reconnects without end. It learns from the servers of
// others in their cluster. Close of the Backend closes its connection.
package dialnats

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/dial"
	natsbackend "github.com/elector-go/elector/backend/nats"
	"github.com/elector-go/elector/backend/register"
	"github.com/elector-go/elector/internal/environment"
)

func init() {
	dial.Register(dial.Scheme{
		Name: "nats", Usage: "nats://host[:port],.../bucket[/key]", Port: "4222", Params: []string{"timeout", "tls"},
		Secret: "set NATS_CREDS, NATS_NKEY, or NATS_USER and NATS_PASSWORD or NATS_PASSWORD_FILE", Open: open,
	})
}

func open(t *dial.Target) (backend.Backend, func() error, error) {
	bucket, key, _ := strings.Cut(strings.TrimPrefix(t.Path, "/"), "/")
	if bucket == "" {
		return nil, nil, errors.New("the bucket is missing: give nats://host/bucket")
	}
	options, err := secured(t)
	if err != nil {
		return nil, nil, err
	}
	l := &link{Target: t, turn: make(chan struct{}, 1)}
	l.options = append(options, l.settings(cmp.Or(t.Timeout, register.DefaultTTL))...)
	b, err := natsbackend.NewLazy(l.connect, natsbackend.Config{Bucket: bucket, Key: key, SessionTimeout: t.Timeout, Logger: t.Logger})
	return b, l.close, err
}

// secured returns the options for credentials and TLS.
func secured(t *dial.Target) ([]nats.Option, error) {
	const creds, nkey, user, password = "NATS_CREDS", "NATS_NKEY", "NATS_USER", "NATS_PASSWORD"
	var env environment.Reader
	var options []nats.Option
	if config := env.TLS(t.TLS, environment.Certificates{CA: "NATS_CA", Cert: "NATS_CERT", Key: "NATS_KEY"}); config != nil {
		options = append(options, rereading(config))
	}
	var set []string
	for _, name := range []string{creds, nkey, user} {
		if os.Getenv(name) != "" {
			set = append(set, name)
		}
	}
	name, secret := environment.TrimNewline(os.Getenv(user)), env.Secret(password)
	switch {
	case len(set) > 1:
		env.Fault("%s are all set: keep one of them", strings.Join(set, " and "))
	case name == "" && secret != "":
		env.Fault("%s has a password, and there is no user: set %s", password, user)
	case os.Getenv(creds) != "":
		env.Read(creds)
		options = append(options, nats.UserCredentials(os.Getenv(creds)))
	case os.Getenv(nkey) != "":
		if _, ok := env.Read(nkey); !ok {
			break
		}
		option, err := nats.NkeyOptionFromSeed(os.Getenv(nkey))
		if err != nil {
			env.Fault("%s: the file %s has no seed of a user's NKEY, which begins with SU: %w", nkey, os.Getenv(nkey), err)
		}
		options = append(options, option)
	case secret != "":
		options = append(options, nats.UserInfo(name, secret))
	case name != "":
		options = append(options, nats.Token(name))
	}
	return options, env.Err()
}

// rereading is nats.Secure with files that are read again for each connection.
func rereading(config func() (*tls.Config, error)) nats.Option {
	return func(o *nats.Options) error {
		first, err := config()
		if err != nil {
			return err
		}
		if first.GetClientCertificate != nil {
			first.GetClientCertificate = func(request *tls.CertificateRequestInfo) (*tls.Certificate, error) {
				now, err := config()
				if err != nil {
					return nil, err
				}
				return now.GetClientCertificate(request)
			}
		}
		o.Secure, o.TLSConfig = true, first
		o.RootCAsCB = func() (*x509.CertPool, error) {
			now, err := config()
			if err != nil {
				return nil, err
			}
			return now.RootCAs, nil
		}
		return nil
	}
}

// A link is a connection that is made when it is wanted.
type link struct {
	*dial.Target
	options []nats.Option
	turn    chan struct{} // held while connecting

	mu     sync.Mutex
	js     jetstream.JetStream // nil before the first connection
	why    error               // why the last attempt to reach a server failed
	closed bool
}

// settings returns what sessions with that timeout need: a dead link is found, and another one tried, within a
// fraction of it.
func (l *link) settings(timeout time.Duration) []nats.Option {
	says := func(what string) func(*nats.Conn, error) {
		return func(_ *nats.Conn, err error) { l.Logger.Debug("nats client: "+what, "error", err) }
	}
	return []nats.Option{
		nats.Name("elector"),
		nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(), nats.ReconnectBufSize(-1),
		nats.ReconnectWait(min(timeout/32, time.Second)), nats.ReconnectJitter(timeout/64, timeout/64),
		nats.PingInterval(timeout / 8), nats.MaxPingsOutstanding(1), nats.Timeout(max(timeout/4, time.Second)),
		nats.SkipHostLookup(), nats.SetCustomDialer(l),
		nats.ErrorHandler(func(c *nats.Conn, _ *nats.Subscription, err error) { says("error")(c, err) }),
		nats.DisconnectErrHandler(says("disconnected")), nats.ReconnectErrHandler(says("cannot reconnect")),
		nats.ReconnectHandler(func(c *nats.Conn) { l.Logger.Debug("nats client: reconnected", "server", c.ConnectedUrlRedacted()) }),
	}
}

// Dial implements nats.CustomDialer.
func (l *link) Dial(network, address string) (net.Conn, error) {
	dial := l.DialContext
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	ctx, cancel := context.WithTimeout(context.Background(), max(cmp.Or(l.Timeout, register.DefaultTTL)/4, time.Second))
	defer cancel()
	conn, err := dial(ctx, network, address)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.why = err
	return conn, err
}

// connect returns the connection, and makes it if there is none. An attempt goes on when ctx has ended.
func (l *link) connect(ctx context.Context) (jetstream.JetStream, error) {
	if js := l.made(); js != nil {
		return js, nil
	}
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	ended := make(chan error, 1)
	go func() {
		defer func() { <-l.turn }()
		ended <- l.try()
	}()
	select {
	case err := <-ended:
		return l.made(), err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *link) made() jetstream.JetStream {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.js
}

// try tries each server once.
func (l *link) try() error {
	if l.made() != nil {
		return nil
	}
	nc, err := nats.Connect("nats://"+strings.Join(l.Servers, ",nats://"), l.options...)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case errors.Is(err, nats.ErrNoServers) && l.why != nil:
		return l.why // what the client does not say
	case err != nil:
		return fmt.Errorf("%s: %w", strings.Join(l.Servers, ", "), err)
	case l.closed:
		nc.Close()
		return nats.ErrConnectionClosed
	}
	l.js, err = jetstream.New(nc)
	return err
}

func (l *link) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.js != nil {
		l.js.Conn().Close()
	}
	return nil
}
