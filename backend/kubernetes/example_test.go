package kubernetes_test

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/kubernetes"
	"github.com/elector-go/elector/strategy/fair"
)

func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	cfg, err := kubernetes.InCluster("reindex")
	if err != nil {
		slog.Error("reindex", "err", err)
		return
	}
	b, err := kubernetes.New(cfg)
	if err != nil {
		slog.Error("reindex", "err", err)
		return
	}
	err = elector.Lead(ctx, elector.Config{
		Backend: b, Strategy: fair.Strategy{}, Election: "/reindex", ID: os.Getenv("POD_NAME"), Logger: slog.Default(),
	}, func(ctx context.Context, t *elector.Term) error {
		return reindex(ctx, t.Token()) // ctx ends before another can lead
	})
	slog.Info("reindex has ended", "err", err)
}

func ExampleLabelLeader() {
	var ctx context.Context   // ends at SIGTERM
	var config elector.Config // with any backend
	label, err := kubernetes.InClusterLabel("elector/reindex")
	if err != nil {
		slog.Error("reindex", "err", err)
		return
	}
	label.Logger = slog.Default()
	err = elector.Lead(ctx, config, kubernetes.LabelLeader(label, func(ctx context.Context, t *elector.Term) error {
		return reindex(ctx, t.Token())
	}))
	slog.Info("reindex has ended", "err", err)
}

func reindex(ctx context.Context, _ uint64) error {
	<-ctx.Done()
	return ctx.Err()
}

// moving returns the lead function of the first of two releases, on the way from client-go: its work needs both
// elections. docs/kubernetes.md shows it.
func moving(lock resourcelock.Interface, reindex func(ctx context.Context, token uint64) error) func(ctx context.Context, t *elector.Term) error {
	return func(ctx context.Context, t *elector.Term) (err error) {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		work := make(chan struct{}, 1) // full while it runs
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: lock, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(ctx context.Context) {
					work <- struct{}{}
					defer func() { <-work }()
					defer stop()
					if ctx.Err() == nil {
						err = reindex(ctx, t.Token())
					}
				},
				OnStoppedLeading: func() {},
			},
		})
		work <- struct{}{} // client-go does not wait until the work has stopped
		return err
	}
}
