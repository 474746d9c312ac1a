package proxytest

import (
	"crypto/tls"
	"testing"

	"github.com/elector-go/elector/internal/certtest"
	"github.com/elector-go/elector/internal/must"
)

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
