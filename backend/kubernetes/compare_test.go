//go:build unix

package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/kubernetes"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy/fair"
)

// A tap is a candidate's link to the API server.
type tap struct {
	http.RoundTripper
	requests atomic.Int64
	dead     atomic.Bool  // swallows requests
	late     atomic.Int64 // how long the next reply to a write takes; then the link is dead
}

func (l *tap) RoundTrip(r *http.Request) (*http.Response, error) {
	l.requests.Add(1)
	if l.dead.Load() {
		for l.dead.Load() {
			select {
			case <-r.Context().Done():
				return nil, r.Context().Err()
			case <-time.After(100 * time.Millisecond):
			}
		}
		return nil, errors.New("the link was dead") // client-go waits for ever while it stands
	}
	answer, err := l.RoundTripper.RoundTrip(r)
	if r.Method != http.MethodGet {
		if d := time.Duration(l.late.Swap(0)); d > 0 {
			l.dead.Store(true)
			time.Sleep(d) // though the client gives up before
		}
	}
	return answer, err
}

// A race is an election of n candidates, by client-go or by elector.
type race struct {
	t     *testing.T
	taps  []*tap
	stops []func()
	mu    sync.Mutex
	terms []term
}

type term struct {
	candidate  int
	begin, end time.Time
}

// lead is the leader's work.
func (r *race) lead(ctx context.Context, candidate int) {
	r.mu.Lock()
	n := len(r.terms)
	r.terms = append(r.terms, term{candidate: candidate, begin: time.Now()})
	r.mu.Unlock()
	<-ctx.Done()
	r.mu.Lock()
	r.terms[n].end = time.Now()
	r.mu.Unlock()
}

// term waits for the term with this index to begin, and to end if ended is set.
func (r *race) term(n int, ended bool) (got term) {
	wait.For(r.t, fmt.Sprint("term ", n), func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		if n >= len(r.terms) || ended && r.terms[n].end.IsZero() {
			return false
		}
		got = r.terms[n]
		return true
	})
	return got
}

// run makes candidates stand until the test ends.
func run(t *testing.T, api *servertest.KubeAPI, name string, n int, stand func(ctx context.Context, leases coordinationclient.CoordinationV1Interface, id string, lead func(context.Context))) *race {
	r := &race{t: t}
	for i := range n {
		l := new(tap)
		config := &rest.Config{Host: api.URL(), BearerToken: api.Admin, TLSClientConfig: rest.TLSClientConfig{CAFile: api.CAFile}, QPS: -1}
		config.Dial = new(net.Dialer).DialContext // it shares its connections with nobody
		config.Wrap(func(own http.RoundTripper) http.RoundTripper {
			l.RoundTripper = own
			return l
		})
		c := must.Get(coordinationclient.NewForConfig(config))(t)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			stand(ctx, c, fmt.Sprint(name, i), func(ctx context.Context) { r.lead(ctx, i) })
		}()
		r.taps = append(r.taps, l)
		r.stops = append(r.stops, func() { cancel(); <-done })
	}
	t.Cleanup(func() {
		for i, stop := range r.stops {
			r.taps[i].dead.Store(false)
			stop()
		}
	})
	r.term(0, false)
	return r
}

// heap returns how much memory is in use, in bytes.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// TestCompare measures client-go's election, with its usual settings, and this package on one API server. Of the
// comparison only that no two of elector's lead at once is a rule.
func TestCompare(t *testing.T) {
	api := servertest.KubeAPIForTest(t, servertest.KubeAPIConfig{})
	for name, stand := range map[string]func(context.Context, coordinationclient.CoordinationV1Interface, string, func(context.Context)){
		"clientgo": func(ctx context.Context, c coordinationclient.CoordinationV1Interface, id string, lead func(context.Context)) {
			for ctx.Err() == nil { // Kubernetes would start the process again
				leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
					Lock: &resourcelock.LeaseLock{
						LeaseMeta: metav1.ObjectMeta{Namespace: "default", Name: "clientgo"}, Client: c, LockConfig: resourcelock.ResourceLockConfig{Identity: id},
					},
					LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second, ReleaseOnCancel: true,
					Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: lead, OnStoppedLeading: func() {}},
				})
			}
		},
		"elector": func(ctx context.Context, c coordinationclient.CoordinationV1Interface, id string, lead func(context.Context)) {
			b, err := kubernetes.New(kubernetes.Config{Leases: c.Leases("default"), Name: "elector"})
			if err == nil {
				err = elector.Lead(ctx, elector.Config{Backend: b, Strategy: fair.Strategy{}, Election: "/e", ID: id}, func(ctx context.Context, _ *elector.Term) error {
					lead(ctx)
					return ctx.Err()
				})
			}
			if err != nil {
				t.Log(id, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{3, 20} {
				t.Run(fmt.Sprint(n), func(t *testing.T) {
					before := heap()
					r := run(t, api, name, n, stand)
					time.Sleep(5 * time.Second) // all stand
					t.Logf("%s, %d candidates: %d KiB a candidate", name, n, (heap()-before)/int64(n)>>10)
					count := func() (sum int64) {
						for _, l := range r.taps {
							sum += l.requests.Load()
						}
						return sum
					}
					const rest = 30 * time.Second
					began := count()
					time.Sleep(rest)
					t.Logf("%s, %d candidates: %.1f requests a second at rest", name, n, float64(count()-began)/rest.Seconds())

					first := r.term(0, false)
					asked := time.Now()
					r.stops[first.candidate]()
					second := r.term(1, false)
					t.Logf("%s, %d candidates: handover %v", name, n, second.begin.Sub(asked).Round(time.Millisecond))

					r.taps[second.candidate].dead.Store(true)
					crash := time.Now()
					third := r.term(2, false)
					t.Logf("%s, %d candidates: crash %v", name, n, third.begin.Sub(crash).Round(time.Millisecond))
					two(t, name, r.term(1, true), third)

					r.taps[second.candidate].dead.Store(false) // it stands again
					r.taps[third.candidate].late.Store(int64(9500 * time.Millisecond))
					fourth := r.term(3, false)
					two(t, name+", a reply that is late", r.term(2, true), fourth)
				})
			}
		})
	}
}

// two logs for how long two have led at once. It must not happen with elector.
func two(t *testing.T, what string, old, next term) {
	t.Helper()
	d := max(0, old.end.Sub(next.begin))
	t.Logf("%s: two leaders for %v", what, d.Round(time.Millisecond))
	if what[0] == 'e' {
		assert.Zero(t, d, what)
	}
}
