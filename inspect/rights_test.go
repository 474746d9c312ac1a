package inspect_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/etcd"
	"github.com/elector-go/elector/inspect"
	"github.com/elector-go/elector/internal/etcdtest"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy/fair"
)

// TestReadOnEtcd checks that a user with only read rights can look, and gets an error for everything else.
func TestReadOnEtcd(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Patience)
	defer cancel()
	server := etcdtest.Single(t, "--bcrypt-cost=4").Members[0]
	root := etcdtest.Operator(t, server.Addr())
	for name, kind := range map[string]clientv3.PermissionType{"worker": clientv3.PermissionType(clientv3.PermReadWrite), "viewer": clientv3.PermissionType(clientv3.PermRead)} {
		must.Get(root.RoleAdd(ctx, name))(t)
		must.Get(root.RoleGrantPermission(ctx, name, "/jobs", "/jobs0", kind))(t)
	}
	must.Get(root.RoleAdd(ctx, "root"))(t)
	for _, name := range []string{"root", "worker", "viewer"} {
		must.Get(root.UserAdd(ctx, name, "secret"))(t)
		must.Get(root.UserGrantRole(ctx, name, name))(t)
	}
	must.Get(root.AuthEnable(ctx))(t)
	open := func(user string) backend.Backend {
		client := must.Get(clientv3.New(clientv3.Config{Endpoints: []string{server.Addr()}, Username: user, Password: "secret", Logger: zap.NewNop(), DialTimeout: 10 * time.Second}))(t)
		t.Cleanup(func() { assert.NoError(t, client.Close()) })
		return must.Get(etcd.New(client, etcd.Config{}))(t)
	}
	worker := open("worker")
	run(t, worker, fair.Strategy{}, path, "7")
	in := inspector(t, open("viewer"), inspect.Options{})
	require.Eventually(t, func() bool {
		v, err := in.Candidates(ctx, path)
		return err == nil && len(v.Candidates) == 1
	}, wait.Patience, 50*time.Millisecond)
	for v, err := range in.Watch(ctx, path, inspect.WatchOptions{Candidates: true}) {
		require.NoError(t, err)
		if v.Leader != nil && v.Trouble == nil {
			break
		}
	}
	assert.Equal(t, []string{"/jobs/reindex fair 1 7"}, summaries(must.Get(in.List(ctx, "/jobs", inspect.ListOptions{}))(t)))

	require.ErrorIs(t, must.Err(in.Ask(ctx, path, elector.Request{By: "anna"})), backend.ErrDenied)
	require.ErrorIs(t, must.Err(in.Leader(ctx, "/other")), backend.ErrDenied)
}
