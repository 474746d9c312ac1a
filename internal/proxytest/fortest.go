package proxytest

import (
	"crypto/tls"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/elector-go/elector/internal/certtest"
	"github.com/elector-go/elector/internal/must"
)

// Jitter is that of the proxies that are started for tests, see Proxy.Delay. It must not be
// set while tests run.
var Jitter time.Duration

// ForTest starts a proxy that is closed when the test ends.
func ForTest(tb testing.TB, target string) *Proxy {
	tb.Helper()
	return forTest(tb, target, func(*Proxy) {})
}

// ZooKeeperForTest is ForTest for a proxy to a ZooKeeper server, for its clients alone. It keeps
// to rules that it shares with other proxies beside its own.
func ZooKeeperForTest(tb testing.TB, target string, shared ...*Rules) *Proxy {
	tb.Helper()
	return forTest(tb, target, func(p *Proxy) { p.zooKeeper = append([]*Rules{&p.Rules}, shared...) })
}

// TLSForTest is ForTest for a proxy that speaks TLS with clients and plain TCP with
// the server. Its certificate is made for the occasion, for 127.0.0.1 and localhost;
// the returned configuration is for clients and trusts nothing else.
func TLSForTest(tb testing.TB, target string) (*Proxy, *tls.Config) {
	tb.Helper()
	authority := must.Get(certtest.New())(tb)
	cert := must.Get(authority.Issue("servertest"))(tb)
	p := forTest(tb, target, func(p *Proxy) {
		p.tls = &tls.Config{
			Certificates: []tls.Certificate{cert},
			MinVersion:   tls.VersionTLS12,
			NextProtos:   []string{"h2"}, // gRPC clients insist on it; others ask for nothing
		}
	})
	return p, &tls.Config{RootCAs: authority.Pool(), ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}
}

func forTest(tb testing.TB, target string, prepare func(*Proxy)) *Proxy {
	tb.Helper()
	p := must.Get(start(target, prepare))(tb)
	p.Delay(0, Jitter)
	tb.Cleanup(func() { assert.NoError(tb, p.Close()) })
	return p
}
