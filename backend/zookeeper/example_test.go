package zookeeper_test

import (
	"context"
	"errors"
	"log"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/strategy/fair"
)

// A transaction of go-zookeeper's own client that is done only while the term holds. It can do more
// than Term.Commit: here it creates a sequential node.
func ExampleChecks() {
	servers := []string{"127.0.0.1:2181"}
	conn, _, err := zk.Connect(servers, 10*time.Second) // your own
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	b, err := zookeeper.New(zookeeper.Config{Servers: servers})
	if err != nil {
		log.Fatal(err)
	}
	e, err := elector.New(elector.Config{Backend: b, Strategy: fair.Strategy{}, Election: "/jobs/reindex", ID: "host-1"})
	if err != nil {
		log.Fatal(err)
	}
	err = elector.Run(context.Background(), e, func(ctx context.Context, t *elector.Term) error {
		guard := t.Guard()
		for {
			checks, err := zookeeper.Checks(ctx, guard.Session, guard.Conditions...) // again for each transaction
			switch {
			case errors.Is(err, backend.ErrCondition):
				return elector.ErrDeposed
			case err != nil:
				return err
			}
			_, err = conn.Multi(append(checks, &zk.CreateRequest{
				Path: "/jobs/reindex-piece-", Data: []byte("3"), Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagSequence,
			})...)
			if !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrBadVersion) {
				return err // done; with zk.ErrConnectionClosed, perhaps done
			}
			// A check has failed, and nothing was written: ask again whether the term is over.
		}
	})
	log.Print(err, e.Close(context.Background()))
}
