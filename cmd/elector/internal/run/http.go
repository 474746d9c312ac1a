package run

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/health"
	electorprom "github.com/elector-go/elector/metrics/prometheus"
)

// slowest bounds a client's request, the answer, and the idle time between them: an idle connection is
// closed.
const slowest = 5 * time.Second

// serve serves e's health and its metrics at an address, until shut is called.
func serve(ctx context.Context, address string, e elector.Elector, metrics *electorprom.Metrics, log *slog.Logger) (shut func(), err error) {
	registry := prometheus.NewRegistry()
	for _, c := range []prometheus.Collector{metrics, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("--http: %w", err)
		}
	}
	metrics.Follow(e)
	go health.Follow(ctx, e)
	mux := http.NewServeMux()
	mux.Handle("/", health.New(e, health.Options{}))
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--http: %w", err)
	}
	server := &http.Server{Handler: mux, ReadTimeout: slowest, WriteTimeout: slowest, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(l); err != http.ErrServerClosed {
			log.Warn("nobody can ask over HTTP any more", "err", err)
		}
	}()
	log.Info("answering over HTTP", "address", l.Addr())
	return func() {
		_ = server.Close() // no request is worth waiting for
		<-done
	}, nil
}
