package etcdtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/elector-go/elector/internal/attempt"
	"github.com/elector-go/elector/internal/etcdclient"
)

// controlDir is where controls write.
const controlDir = "elector-control/"

// Controls keep leases of the bare client library, one at each member, as
// conformance.Service.Controls says.
func (s *Servers) Controls(ttl time.Duration) (controls []attempt.Control) {
	for _, addr := range s.Addrs() {
		controls = append(controls, Control(addr, ttl))
	}
	return controls
}

// Control is that of one server.
func Control(addr string, ttl time.Duration) attempt.Control {
	return func(ctx context.Context, answered func(sent time.Time)) error {
		client, err := newBare([]string{addr}, grpc.WithConnectParams(connecting))
		if err != nil {
			return err
		}
		defer func() { _ = etcdclient.Close(client, 10*time.Second) }() // the control has ended
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		granting, granted := context.WithTimeout(ctx, ttl)
		defer granted()
		lease, err := client.Grant(granting, int64(ttl/time.Second))
		if err != nil {
			return err
		}
		defer revoke(client, lease.ID)
		kept, err := client.KeepAlive(ctx, lease.ID)
		if err != nil {
			return err
		}
		over := make(chan struct{})
		go func() {
			defer close(over)
			for range kept {
			}
		}()
		return attempt.Every(ctx, ttl, answered, func() error {
			ctx, cancel := context.WithTimeout(ctx, ttl)
			defer cancel()
			// A write, as rules do them: the leader and a quorum have a part in it.
			_, err := client.Put(ctx, fmt.Sprintf("%s%x", controlDir, lease.ID), "", clientv3.WithLease(lease.ID))
			if errors.Is(err, rpctypes.ErrLeaseNotFound) {
				return fmt.Errorf("%w: etcd does not know lease %x any more", attempt.ErrLost, lease.ID)
			}
			select {
			case <-over:
				return fmt.Errorf("%w: KeepAlive of lease %x has ended", attempt.ErrLost, lease.ID)
			default:
				return err
			}
		})
	}
}

// revoke ends a lease, if a server can be reached. It goes by itself otherwise.
func revoke(client *clientv3.Client, lease clientv3.LeaseID) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, _ = client.Revoke(ctx, lease)
}
