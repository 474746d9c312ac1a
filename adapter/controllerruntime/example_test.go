package electorcontrollerruntime_test

import (
	"context"
	"fmt"
	"log"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/elector-go/elector"
	electorcontrollerruntime "github.com/elector-go/elector/adapter/controllerruntime"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/strategy/fair"
)

// The manager's controllers run in the replica that leads.
func Example() {
	e, err := elector.New(elector.Config{
		Backend: memory.New(memory.Options{}), Strategy: fair.Strategy{}, Election: "/operator", ID: "pod-1",
	})
	if err != nil {
		log.Fatal(err)
	}
	cfg := &rest.Config{Host: "https://127.0.0.1:6443"} // ctrl.GetConfigOrDie(), in an operator
	mgr, err := electorcontrollerruntime.NewManager(cfg, e, ctrl.Options{Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())            // ctrl.SetupSignalHandler(), in an operator
	err = mgr.Add(manager.RunnableFunc(func(context.Context) error { // or a controller
		fmt.Println("the leader works:", e.Term().Valid())
		stop()
		return nil
	}))
	if err != nil {
		log.Fatal(err)
	}
	if err := mgr.Start(ctx); err != nil {
		log.Fatal(err) // the process exits at once: the term may be over
	}
	fmt.Println("it has stopped, and released its seat:", e.Term() == nil)
	if err := e.Close(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// the leader works: true
	// it has stopped, and released its seat: true
}
