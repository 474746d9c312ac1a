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

// A door is where others ask this process over HTTP how it is: package health, and its metrics.
type door struct {
	listener net.Listener
	metrics  *electorprom.Metrics
}

// listen opens a door at an address. The caller serves or closes it.
func listen(ctx context.Context, address, election string) (*door, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--http: %w", err)
	}
	return &door{l, electorprom.New(electorprom.Options{Election: election})}, nil
}

// serve answers for e until shut is called.
func (d *door) serve(e elector.Elector, log *slog.Logger) (shut func(), err error) {
	d.metrics.Follow(e)
	registry := prometheus.NewRegistry()
	for _, c := range []prometheus.Collector{d.metrics, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("--http: %w", err)
		}
	}
	mux := http.NewServeMux()
	mux.Handle("/", health.New(e, health.Options{}))
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(d.listener); err != http.ErrServerClosed {
			log.Warn("nobody can ask over HTTP any more", "err", err)
		}
	}()
	log.Info("answering over HTTP", "address", d.listener.Addr())
	return func() {
		_ = server.Close() // it has no request that is worth waiting for
		<-done
	}, nil
}
