package zookeeper_test

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/tlsfiles"
)

// A GetTLS that returns no configuration does not make connections without TLS.
func TestGetTLSReturnsNone(t *testing.T) {
	t.Parallel()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer func() { _ = listener.Close() }()
	none := func() (*tls.Config, error) { return nil, nil }
	b := must.Get(zookeeper.New(zookeeper.Config{Servers: []string{listener.Addr().String()}, GetTLS: none}))(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	err := must.Err(b.Open(ctx, backend.OpenOptions{}))
	require.ErrorContains(t, err, "GetTLS")
	_, err = tlsfiles.Dialer(nil, none)(ctx, "tcp", listener.Addr().String())
	assert.Error(t, err)
}
