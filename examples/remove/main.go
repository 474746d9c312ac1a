// Remove removes what an election has left in the service, and refuses while somebody stands in it:
//
//	go run ./examples/remove -backend etcd://127.0.0.1:2379 -election /jobs/reindex
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"time"

	"github.com/elector-go/elector/backend/dial"
	"github.com/elector-go/elector/inspect"
)

func main() {
	url := flag.String("backend", "", dial.Usage())
	election := flag.String("election", "", "path of the election")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	b, err := dial.Open(ctx, *url)
	if err != nil {
		log.Fatal(err)
	}
	in, err := inspect.New(b, inspect.Options{})
	if err != nil {
		log.Fatal(err)
	}
	gone, err := in.Remove(ctx, *election, inspect.RemoveOptions{})
	if err = errors.Join(err, in.Close(ctx), b.Close()); err != nil {
		log.Fatal(err)
	}
	fmt.Println("removed", gone.Directory, gone.Kept)
}
