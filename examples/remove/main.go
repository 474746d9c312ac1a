// Remove removes what an election has left in the service, and refuses while somebody stands in
// it:
//
//	go run ./examples/remove -backend etcd://127.0.0.1:2379 -election /jobs/reindex -strategy fair
//
// docs/operations.md shows it.
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/dial"
	"github.com/elector-go/elector/strategy/catalog"
)

func main() {
	url := flag.String("backend", "", dial.Usage)
	election := flag.String("election", "", "path of the election")
	name := flag.String("strategy", "fair", "the one in the election's record")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	item, ok := catalog.Named(*name)
	if !ok {
		log.Fatalf("there is no strategy %q", *name)
	}
	b, err := dial.Open(ctx, *url) // with credentials: New of the service's package
	if err != nil {
		log.Fatal(err)
	}
	err = elector.Remove(ctx, b, item.Strategy, *election)
	if err = errors.Join(err, b.Close()); err != nil {
		log.Fatal(err)
	}
}
