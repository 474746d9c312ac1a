package health_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/health"
	"github.com/elector-go/elector/strategy/fair"
)

// A service whose leader handles the requests. Every process sends clients to the leader, and reports its
// health to probes on a separate port.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	e, err := elector.New(elector.Config{
		Backend: memory.New(memory.Options{}), Strategy: fair.Strategy{}, Election: "/api", ID: "host-1",
		Value: []byte("http://host-1:8080"), // where Redirect sends clients while this one leads
	})
	if err != nil {
		log.Fatal(err)
	}
	app := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "done") })
	servers := []*http.Server{
		{Addr: ":8080", Handler: health.Redirect(e, app)},
		{Addr: ":4040", Handler: health.New(e, health.Options{})},
	}
	for _, s := range servers {
		go func() {
			if err := s.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
				log.Print(err)
				stop()
			}
		}()
	}
	err = elector.Run(ctx, e, func(ctx context.Context, _ *elector.Term) error {
		<-ctx.Done()
		return nil
	})
	closing, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err = errors.Join(err, e.Close(closing))
	for _, s := range servers {
		err = errors.Join(err, s.Shutdown(closing))
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}
