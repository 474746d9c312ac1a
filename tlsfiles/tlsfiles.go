// Package tlsfiles is TLS for the clients of all backends, with authorities and certificates from PEM files
// that may be replaced while a program runs: each connection uses the files as they are when it is made.
//
// A file that is missing, or only half written, makes that connection fail; sessions make another one.
// Connections that are there already go on. To change the authority, first give clients a file with the old
// one and the new one.
//
// The same Files serve each client:
//
//	zookeeper.Config{GetTLS: files.Config}
//	clientv3.Config{DialOptions: []grpc.DialOption{grpc.WithTransportCredentials(etcd.TLS(files.Config))}}
//	api.Config{Transport: &http.Transport{DialTLSContext: files.DialTLSContext}}
package tlsfiles

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

// Files are the paths of PEM files. All are optional.
type Files struct {
	CA   string // the servers' authorities; without it, those of the system, as they were when Go first needed them
	Cert string // the client's certificate, followed by those between it and the authority
	Key  string // its key
}

// Config reads the files, and returns a configuration for one connection of a client.
func (f Files) Config() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.CA != "" {
		text, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("the file %s has no certificate in it: it takes PEM, which has a line -----BEGIN CERTIFICATE-----", f.CA)
		}
	}
	if f.Cert != "" || f.Key != "" {
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, fmt.Errorf("the files %s and %s are no certificate and its key in PEM: %w", f.Cert, f.Key, err)
		}
		// Among Certificates it would be left out where the server names other authorities, and the server's
		// error would not say why.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	return config, nil
}

// DialTLSContext connects and does the handshake, as http.Transport.DialTLSContext does.
func (f Files) DialTLSContext(ctx context.Context, network, address string) (net.Conn, error) {
	return Dialer(nil, f.Config)(ctx, network, address)
}

// Dialer returns a function that connects by dial, or by net.Dialer's defaults if that is nil, and does the
// handshake. It asks for another configuration for each connection.
func Dialer(dial func(ctx context.Context, network, address string) (net.Conn, error), config func() (*tls.Config, error)) func(ctx context.Context, network, address string) (net.Conn, error) {
	if dial == nil {
		dial = (&net.Dialer{Timeout: handshakeWithin}).DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		now, err := config()
		if err == nil && now == nil {
			err = errors.New("there is no configuration for TLS")
		}
		if err != nil {
			return nil, err
		}
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, handshakeWithin)
		defer cancel()
		return Client(ctx, conn, address, now)
	}
}

// handshakeWithin bounds connecting, and a handshake, as http.DefaultTransport does.
const handshakeWithin = 10 * time.Second

// Client does the handshake with the server at address, "host:port", on conn. An empty ServerName in config
// means the host. It closes conn if it fails.
func Client(ctx context.Context, conn net.Conn, address string, config *tls.Config) (net.Conn, error) {
	if config.ServerName == "" {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			host = address
		}
		host, _, _ = strings.Cut(host, "%") // no certificate has the zone of an IPv6 address
		config = config.Clone()
		config.ServerName = host
	}
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close() // err says why
		return nil, err
	}
	return secured, nil
}
