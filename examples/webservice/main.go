// Webservice is a service in several processes, of which only the leader writes: the others redirect their
// clients to it. Start it twice, or more often:
//
//	webservice -backend zk://127.0.0.1:2181 -listen 127.0.0.1:8081
//	webservice -backend zk://127.0.0.1:2181 -listen 127.0.0.1:8082
//	curl -L -X PUT -d hello http://127.0.0.1:8082/notes/a
//
// SIGTERM hands over. After a kill -9 the next process leads within milliseconds, as a companion ends the
// dead one's session (Linux). A deposed leader that has not noticed writes nothing: the service refuses it.
package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/dial"
	"github.com/elector-go/elector/health"
	"github.com/elector-go/elector/lastwill"
	electorprom "github.com/elector-go/elector/metrics/prometheus"
	"github.com/elector-go/elector/strategy/fair"
)

func main() {
	if err := run(); err != nil {
		slog.Error("webservice", "err", err)
		os.Exit(1)
	}
}

func run() (err error) {
	url := flag.String("backend", "mem://", dial.Usage())
	listen := flag.String("listen", "127.0.0.1:8080", "address at which clients and the other processes reach this one")
	flag.Parse()
	// First of all: the companion is this program, too, and does not get past this call.
	b, err := lastwill.Start(func() (backend.Backend, error) { return dial.Open(context.Background(), *url) }, lastwill.Options{Optional: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }() // after the elector
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	e, handler, err := newService(b, l.Addr().String())
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	go func() { slog.Info("server has ended", "err", server.Serve(l)) }()

	if err = elector.Run(ctx, e, lead); ctx.Err() != nil {
		err = nil // SIGTERM: the seat is free
	}
	closing, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(err, e.Close(closing), server.Shutdown(closing))
}

// newService returns one candidate, and its HTTP handler.
func newService(b backend.Backend, address string) (elector.Elector, http.Handler, error) {
	const election = "/webservice"
	metrics, registry := electorprom.New(electorprom.Options{Election: election}), prometheus.NewRegistry()
	if err := registry.Register(metrics); err != nil {
		return nil, nil, err
	}
	e, err := elector.New(elector.Config{
		Backend: b, Strategy: fair.Strategy{}, Election: election, ID: address, Value: []byte("http://" + address),
		Logger: slog.Default(), Hooks: metrics.Hooks(),
	})
	if err != nil {
		return nil, nil, err
	}
	metrics.Follow(e)
	mux := http.NewServeMux()
	mux.Handle("/", health.New(e, health.Options{})) // /healthz, /leader, /status
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.Handle("/notes/{name}", health.Redirect(e, notes(e)))
	return e, mux, nil
}

// lead does nothing itself: requests bring the work. Your own would load its state here.
func lead(ctx context.Context, _ *elector.Term) error {
	<-ctx.Done()
	return ctx.Err()
}

// notes stores and shows notes, in the term that the process has at the request.
func notes(e elector.Elector) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t := e.Term()
		if t == nil {
			http.Error(w, "this process does not lead any more: try again", http.StatusServiceUnavailable)
			return
		}
		var note backend.Entry
		text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
		switch key := "/webservice-notes/" + r.PathValue("name"); {
		case err != nil:
		case r.Method == http.MethodPut:
			_, err = t.Commit(r.Context(), elector.Put(key, text)) // refused once the term is over
		default:
			note, err = t.Get(r.Context(), key)
		}
		switch {
		case err == nil:
			_, _ = w.Write(note.Value)
		case errors.Is(err, backend.ErrNoEntry):
			http.Error(w, "there is no such note", http.StatusNotFound)
		case errors.Is(err, backend.ErrBadKey), errors.As(err, new(*http.MaxBytesError)):
			http.Error(w, err.Error(), http.StatusBadRequest)
		default: // the term is over, or the service is away
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
}
