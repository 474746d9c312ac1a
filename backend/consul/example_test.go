package consul_test

import (
	"context"
	"errors"
	"log"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/strategy/fair"
)

// A transaction of Consul's own client is done only while the term holds. Term.Commit cannot do this:
// here a key gets flags.
func ExampleChecks() {
	client, err := api.NewClient(api.DefaultConfig())
	if err != nil {
		log.Fatal(err)
	}
	b, err := consul.New(client, consul.Config{})
	if err != nil {
		log.Fatal(err)
	}
	e, err := elector.New(elector.Config{Backend: b, Strategy: fair.Strategy{}, Election: "/jobs/reindex", ID: "host-1"})
	if err != nil {
		log.Fatal(err)
	}
	err = elector.Run(context.Background(), e, func(ctx context.Context, t *elector.Term) error {
		guard := t.Guard()
		put := &api.TxnOp{KV: &api.KVTxnOp{Verb: api.KVSet, Key: "jobs/reindex-progress", Value: []byte("3 %"), Flags: 7}}
		for {
			checks, err := consul.Checks(ctx, guard.Session, guard.Conditions...) // again for each transaction
			switch {
			case errors.Is(err, backend.ErrCondition):
				return elector.ErrDeposed
			case err != nil:
				return err
			}
			ok, _, _, err := client.Txn().Txn(append(checks, put), (&api.QueryOptions{}).WithContext(ctx))
			if err != nil {
				return err // it may have been done: read, and decide again
			}
			if ok {
				return nil
			}
			// A check has failed, and nothing was written: ask again whether the term is over.
		}
	})
	log.Print(err, e.Close(context.Background()))
}
