package electorprom_test

import (
	"context"
	"fmt"
	"log"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/memory"
	electorprom "github.com/elector-go/elector/metrics/prometheus"
	"github.com/elector-go/elector/strategy/fair"
)

// The hooks go into the elector's config, the elector into the metrics, and the metrics into a registry.
func Example() {
	cfg := elector.Config{Backend: memory.New(memory.Options{}), Strategy: fair.Strategy{}, Election: "/jobs/reindex", ID: "host-1"}
	m := electorprom.New(electorprom.Options{Election: cfg.Election})
	cfg.Hooks = cfg.Hooks.Join(m.Hooks())
	e, err := elector.New(cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close(context.Background())
	m.Follow(e)

	registry := prometheus.NewRegistry()
	registry.MustRegister(m)
	http.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))

	if _, err := e.Campaign(context.Background()); err != nil {
		log.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "elector_is_leader" {
			fmt.Println(f.GetName(), f.GetMetric()[0].GetGauge().GetValue())
		}
	}
	// Output:
	// elector_is_leader 1
}
