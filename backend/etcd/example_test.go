package etcd_test

import (
	"context"
	"log"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/etcd"
	"github.com/elector-go/elector/strategy/fair"
)

// A transaction of etcd's own client is done only while the term holds. Term.Commit cannot do this:
// here a key gets its own lease.
func ExampleCmps() {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"127.0.0.1:2379"}, DialKeepAliveTime: 3 * time.Second, DialKeepAliveTimeout: 3 * time.Second,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	b, err := etcd.New(client, etcd.Config{})
	if err != nil {
		log.Fatal(err)
	}
	e, err := elector.New(elector.Config{Backend: b, Strategy: fair.Strategy{}, Election: "/jobs/reindex", ID: "host-1"})
	if err != nil {
		log.Fatal(err)
	}
	err = elector.Run(context.Background(), e, func(ctx context.Context, t *elector.Term) error {
		lease, err := client.Grant(ctx, 60)
		if err != nil {
			return err
		}
		guard := t.Guard()
		cmps, err := etcd.Cmps(ctx, guard.Session, guard.Conditions...)
		if err != nil {
			return err
		}
		answer, err := client.Txn(ctx).
			If(cmps...).
			Then(clientv3.OpPut("/jobs/reindex-progress", "3 %", clientv3.WithLease(lease.ID))).
			Commit()
		if err != nil {
			return err // it may have been done: read, and decide again
		}
		if !answer.Succeeded {
			return elector.ErrDeposed // nothing was written
		}
		return nil
	})
	log.Print(err, e.Close(context.Background()))
}
