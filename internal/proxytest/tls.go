package proxytest

import (
	"crypto/tls"
	"fmt"

	"github.com/elector-go/elector/internal/certtest"
)

// NewTLS starts a proxy that speaks TLS with clients and plain TCP with
// the server at target. Its certificate is made for the occasion, for 127.0.0.1
// and localhost; the returned configuration is for clients and trusts nothing
// else. The caller closes the proxy.
func NewTLS(target string) (*Proxy, *tls.Config, error) {
	authority, err := certtest.New()
	if err != nil {
		return nil, nil, fmt.Errorf("proxytest: %w", err)
	}
	cert, err := authority.Issue("servertest")
	if err != nil {
		return nil, nil, fmt.Errorf("proxytest: %w", err)
	}
	p, err := start(target, func(p *Proxy) {
		p.tls = &tls.Config{
			Certificates: []tls.Certificate{cert},
			MinVersion:   tls.VersionTLS12,
			NextProtos:   []string{"h2"}, // gRPC clients insist on it; others ask for nothing
		}
	})
	if err != nil {
		return nil, nil, err
	}
	return p, &tls.Config{RootCAs: authority.Pool(), ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12}, nil
}
