package proxytest

import (
	"crypto/tls"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/elector-go/elector/internal/certtest"
	"github.com/elector-go/elector/internal/must"
)

// Jitter is the jitter of the proxies that are started for tests, see Proxy.Delay. Do not set it while
// tests run.
var Jitter time.Duration

// ForTest starts a proxy and closes it when the test ends.
func ForTest(tb testing.TB, target string) *Proxy {
	tb.Helper()
	return forTest(tb, target, func(*Proxy) {})
}

// ZooKeeperForTest is ForTest for a proxy between a ZooKeeper server and its clients. The proxy obeys its
// own rules and the given ones, which it shares with other proxies.
func ZooKeeperForTest(tb testing.TB, target string, shared ...*Rules) *Proxy {
	tb.Helper()
	return forTest(tb, target, func(p *Proxy) { p.zooKeeper = append([]*Rules{&p.Rules}, shared...) })
}

// TLSForTest is ForTest for a proxy that speaks TLS with clients and plain TCP with the server. Its
// certificate is new, for 127.0.0.1 and localhost; the returned configuration is for clients and trusts
// only that certificate.
func TLSForTest(tb testing.TB, target string) (*Proxy, *tls.Config) {
	tb.Helper()
	authority := must.Get(certtest.New())(tb)
	cert := must.Get(authority.Issue("servertest"))(tb)
	p := forTest(tb, target, func(p *Proxy) {
		p.tls = &tls.Config{
			Certificates: []tls.Certificate{cert},
			MinVersion:   tls.VersionTLS12,
			NextProtos:   []string{"h2"}, // gRPC clients require it; others do not ask
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
