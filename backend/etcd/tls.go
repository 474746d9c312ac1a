package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"net"

	"google.golang.org/grpc/credentials"
)

// TLS is TLS for certificates that are replaced while the program runs, in place of clientv3.Config.TLS. It
// asks for the configuration of each connection, as does tlsfiles.Files.Config:
//
//	clientv3.Config{DialOptions: []grpc.DialOption{grpc.WithTransportCredentials(etcd.TLS(files.Config))}}
func TLS(config func() (*tls.Config, error)) credentials.TransportCredentials {
	return eachTime{credentials.NewTLS(nil), config}
}

// eachTime are credentials for clients that ask for another configuration for each handshake.
type eachTime struct {
	credentials.TransportCredentials
	config func() (*tls.Config, error)
}

func (e eachTime) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	now, err := e.config()
	if err == nil && now == nil { // NewTLS would take the system's authorities
		err = errors.New("there is no configuration for TLS")
	}
	if err != nil {
		return nil, nil, err
	}
	return credentials.NewTLS(now).ClientHandshake(ctx, authority, conn)
}

func (e eachTime) Clone() credentials.TransportCredentials {
	return eachTime{e.TransportCredentials.Clone(), e.config}
}
