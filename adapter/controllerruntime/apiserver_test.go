package electorcontrollerruntime

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy/fair"
)

// Two replicas of an operator on a real API server: the writes of one begin after the last of the other, whether
// it loses its session or stops.
func TestOperator(t *testing.T) {
	servertest.Long(t, "an API server")
	server := servertest.KubeAPIForTest(t, servertest.KubeAPIConfig{NoSync: true})
	cfg := &rest.Config{Host: server.URL(), BearerToken: server.Admin, TLSClientConfig: rest.TLSClientConfig{CAFile: server.CAFile}, QPS: -1}
	direct := must.Get(client.NewWithWatch(cfg, client.Options{}))(t)
	require.NoError(t, direct.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "counter"}}))
	watch := must.Get(direct.Watch(t.Context(), &corev1.ConfigMapList{}, client.InNamespace("default")))(t)
	defer watch.Stop()

	service := memory.New(memory.Options{DefaultTTL: 4 * time.Second})
	launch := func(id string) *replica {
		r := &replica{client: service.Client(id), ended: make(chan error, 1)}
		r.e = must.Get(elector.New(elector.Config{Backend: r.client, Strategy: fair.Strategy{}, Election: "/operator", ID: id}))(t)
		t.Cleanup(func() { assert.NoError(t, r.e.Close(context.Background())) })
		r.Manager = must.Get(NewManager(cfg, r.e, manager.Options{
			Metrics: metricsserver.Options{BindAddress: "0"}, Logger: funcr.New(func(string, string) {}, funcr.Options{}),
		}))(t)
		require.NoError(t, ctrl.NewControllerManagedBy(r).Named("counter").For(&corev1.ConfigMap{}).
			WithOptions(controller.Options{SkipNameValidation: new(true)}).
			Complete(counter{r.GetClient(), r.e, id}))
		var ctx context.Context
		ctx, r.stop = context.WithCancel(t.Context())
		go func() { r.ended <- r.Start(ctx) }()
		t.Cleanup(r.stop)
		return r
	}
	// await returns the writer and the token of each of the next writes, until id has written ten.
	var last uint64
	await := func(id string) (writers []string) {
		t.Helper()
		timeout := time.After(wait.Patience)
		for n := 0; n < 10; {
			select {
			case event := <-watch.ResultChan():
				object, ok := event.Object.(*corev1.ConfigMap)
				if !ok || object.Name != "counter" || object.Data == nil {
					continue
				}
				writers = append(writers, object.Data["by"])
				token := must.Get(strconv.ParseUint(object.Data["token"], 10, 64))(t)
				assert.GreaterOrEqual(t, token, last)
				last = token
				if object.Data["by"] == id {
					n++
				}
			case <-timeout:
				t.Fatalf("%s does not write: %v", id, writers)
			}
		}
		return writers
	}
	ordered := func(writers []string, from, to string) {
		t.Helper()
		for i, w := range writers[1:] {
			assert.False(t, writers[i] == to && w == from, "%v", writers)
		}
	}

	a := launch("a")
	await("a")
	b := launch("b")
	time.Sleep(2 * time.Second)
	a.client.Suspend()
	assert.ErrorIs(t, <-a.ended, elector.ErrSessionLost)
	began := time.Now()
	ordered(await("b"), "a", "b")
	a.client.Resume()
	t.Log("b has written ten times", time.Since(began), "after the loss")

	c := launch("c")
	time.Sleep(2 * time.Second)
	began = time.Now()
	b.stop()
	assert.NoError(t, <-b.ended)
	ordered(await("c"), "b", "c")
	t.Log("c has written ten times", time.Since(began), "after b was told to stop")
	c.stop()
	assert.NoError(t, <-c.ended)
}

// A counter is a reconciler that writes to the object over and over.
type counter struct {
	client.Client
	e  elector.Elector
	id string
}

func (c counter) Reconcile(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
	var object corev1.ConfigMap
	if err := c.Get(ctx, r.NamespacedName, &object); err != nil || object.Name != "counter" {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	term := c.e.Term()
	if term == nil {
		return ctrl.Result{}, nil
	}
	n, _ := strconv.Atoi(object.Data["n"])
	object.Data = map[string]string{"by": c.id, "token": strconv.FormatUint(term.Token(), 10), "n": strconv.Itoa(n + 1)}
	if err := c.Update(ctx, &object); err != nil {
		return ctrl.Result{RequeueAfter: 10 * time.Millisecond}, nil // the cache is behind
	}
	return ctrl.Result{RequeueAfter: 10 * time.Millisecond}, nil
}
