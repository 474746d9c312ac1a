package lastwill_test

import (
	"context"
	"log"
	"os"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/dial"
	"github.com/elector-go/elector/lastwill"
	"github.com/elector-go/elector/strategy/fair"
)

// A candidate whose crash costs milliseconds. This is all of main: the companion, which is this program
// executed again, does not get past Start.
func Example() {
	b, err := lastwill.Start(func() (backend.Backend, error) {
		return dial.Open(context.Background(), os.Getenv("ELECTOR_URL")) // for example etcd://etcd1:2379?timeout=30s
	}, lastwill.Options{Optional: true}) // without a companion on other systems than Linux
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close() // after the elector
	ctx := context.Background()
	e, err := elector.New(elector.Config{Backend: b, Strategy: fair.Strategy{}, Election: "/jobs/report", ID: "report-1"})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close(ctx)
	err = elector.Run(ctx, e, func(ctx context.Context, t *elector.Term) error {
		<-ctx.Done() // the job, which ends with the term
		return nil
	})
	log.Println(err)
}
