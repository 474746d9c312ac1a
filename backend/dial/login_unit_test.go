package dial

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// A request that a change of users has overtaken does not invalidate a token that the servers remember. It
// is sent again without a login, which would crash here: there is no connection.
func TestOvertakenRequestKeepsItsToken(t *testing.T) {
	l := &login{user: "ann", turn: make(chan struct{}, 1)}
	l.token.Store(&token{text: "XrmAmqgFsUxVDWEj.21"})
	var bore []string
	err := l.unary(t.Context(), "/etcdserverpb.KV/Put", nil, nil, nil, func(ctx context.Context, _ string, _, _ any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
		sent, _ := metadata.FromOutgoingContext(ctx)
		bore = append(bore, sent[rpctypes.TokenFieldNameGRPC]...)
		if len(bore) == 1 {
			return rpctypes.ErrGRPCAuthOldRevision
		}
		return nil
	})
	require.NoError(t, err)
	assert.Equal(t, []string{"XrmAmqgFsUxVDWEj.21", "XrmAmqgFsUxVDWEj.21"}, bore)
}
