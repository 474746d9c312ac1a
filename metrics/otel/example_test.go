package electorotel_test

import (
	"context"
	"fmt"
	"log"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/memory"
	electorotel "github.com/elector-go/elector/metrics/otel"
	"github.com/elector-go/elector/strategy/fair"
)

// A program uses its own exporter in place of tracetest's, and usually OpenTelemetry's global providers.
func Example() {
	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))

	cfg := elector.Config{Backend: memory.New(memory.Options{}), Strategy: fair.Strategy{}, Election: "/jobs/reindex", ID: "host-1"}
	telemetry, err := electorotel.New(electorotel.Options{Election: cfg.Election, TracerProvider: provider})
	if err != nil {
		log.Fatal(err)
	}
	defer telemetry.Close()
	cfg.Hooks = cfg.Hooks.Join(telemetry.Hooks())
	e, err := elector.New(cfg)
	if err != nil {
		log.Fatal(err)
	}
	telemetry.Follow(e)

	ctx := context.Background()
	err = elector.Run(ctx, e, func(ctx context.Context, t *elector.Term) error {
		_, err := t.Commit(ctx, elector.Put("/jobs/reindex-state", []byte("done")))
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := e.Close(ctx); err != nil { // the term's span has ended when Close returns
		log.Fatal(err)
	}
	for _, span := range exporter.GetSpans() {
		fmt.Println(span.Name)
	}
	// Output:
	// campaign /jobs/reindex
	// commit /jobs/reindex
	// term /jobs/reindex
}
