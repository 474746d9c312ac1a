package kubernetes_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	k8stesting "k8s.io/client-go/testing"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/kubernetes"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy/fair"
)

const (
	key = "elector/reindex"
	ttl = 10 * time.Second
)

var pods = corev1.SchemeGroupVersion.WithResource("pods")

// A cluster has Pods, an API server that minds their versions, and an election on another service.
type cluster struct {
	*testing.T
	set     *fake.Clientset
	service *memory.Service

	sync.Mutex
	version int
	most    int      // see mostAtOnce
	history []string // see changes
}

func newCluster(t *testing.T, names ...string) *cluster {
	c := &cluster{T: t, set: fake.NewSimpleClientset(), service: memory.New(memory.Options{})}
	c.set.PrependReactor("patch", "pods", c.patch)
	for _, name := range names {
		c.version++
		version := strconv.Itoa(c.version)
		require.NoError(t, c.set.Tracker().Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: version}}))
	}
	return c
}

// patch is what the API server does with a merge patch of labels and annotations. The fake one ignores versions.
func (c *cluster) patch(action k8stesting.Action) (handled bool, ret runtime.Object, err error) {
	a := action.(k8stesting.PatchAction)
	var p struct {
		Metadata struct {
			ResourceVersion     string
			Labels, Annotations map[string]*string
		}
	}
	if err := json.Unmarshal(a.GetPatch(), &p); err != nil || a.GetPatchType() != types.MergePatchType {
		return true, nil, fmt.Errorf("%s patch %s: %w", a.GetPatchType(), a.GetPatch(), err)
	}
	c.Lock()
	defer c.Unlock()
	o, err := c.set.Tracker().Get(pods, "ns", a.GetName())
	if err != nil {
		return true, nil, err
	}
	pod := o.(*corev1.Pod)
	if v := p.Metadata.ResourceVersion; v != "" && v != pod.ResourceVersion {
		return true, nil, apierrors.NewConflict(pods.GroupResource(), a.GetName(), errors.New("the object has been modified"))
	}
	had := pod.Labels[key] == "leader"
	mergeInto(&pod.Labels, p.Metadata.Labels)
	mergeInto(&pod.Annotations, p.Metadata.Annotations)
	c.version++
	pod.ResourceVersion = strconv.Itoa(c.version)
	switch has := pod.Labels[key] == "leader"; {
	case has && !had:
		c.history = append(c.history, pod.Name)
	case had && !has:
		c.history = append(c.history, "-"+pod.Name)
	}
	err = c.set.Tracker().Update(pods, pod, "ns")
	c.most = max(c.most, len(c.bearers()))
	return true, pod, err
}

func mergeInto(into *map[string]string, with map[string]*string) {
	for k, v := range with {
		if *into == nil {
			*into = make(map[string]string)
		}
		if v == nil {
			delete(*into, k)
		} else {
			(*into)[k] = *v
		}
	}
}

// changes returns the Pods that got the label so far, and "-" before each that lost it.
func (c *cluster) changes() []string {
	c.Lock()
	defer c.Unlock()
	return slices.Clone(c.history)
}

// mostAtOnce returns how many Pods have borne the label at once.
func (c *cluster) mostAtOnce() int {
	c.Lock()
	defer c.Unlock()
	return c.most
}

// bearers returns the names of the Pods that bear the label.
func (c *cluster) bearers() []string {
	o, err := c.set.Tracker().List(pods, corev1.SchemeGroupVersion.WithKind("Pod"), "ns")
	require.NoError(c, err)
	names := []string{}
	for _, pod := range o.(*corev1.PodList).Items {
		if pod.Labels[key] == "leader" {
			names = append(names, pod.Name)
		}
	}
	slices.Sort(names)
	return names
}

// write sets label and annotation of a Pod by hand; "" removes one.
func (c *cluster) write(name, label, annotation string) {
	c.Helper()
	pod, err := c.set.CoreV1().Pods("ns").Get(c.Context(), name, metav1.GetOptions{})
	require.NoError(c, err)
	value := func(text string) map[string]*string {
		if text == "" {
			return map[string]*string{key: nil}
		}
		return map[string]*string{key: &text}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": pod.ResourceVersion, "labels": value(label), "annotations": value(annotation),
	}})
	require.NoError(c, err)
	_, err = c.set.CoreV1().Pods("ns").Patch(c.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(c, err)
}

func (c *cluster) annotation(name string) string {
	pod, err := c.set.CoreV1().Pods("ns").Get(c.Context(), name, metav1.GetOptions{})
	require.NoError(c, err)
	return pod.Annotations[key]
}

// A link is a process's way to the API server.
type link struct {
	corev1client.PodInterface
	mu    sync.Mutex
	fault func(ctx context.Context, verb string, request func() error) error // nil: none
}

func (l *link) breaks(fault func(ctx context.Context, verb string, request func() error) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault = fault
}

func through[T any](ctx context.Context, l *link, verb string, request func() (T, error)) (answer T, err error) {
	l.mu.Lock()
	fault := l.fault
	l.mu.Unlock()
	if fault == nil {
		return request()
	}
	err = fault(ctx, verb, func() (err error) {
		answer, err = request()
		return err
	})
	return answer, err
}

func (l *link) Get(ctx context.Context, name string, o metav1.GetOptions) (*corev1.Pod, error) {
	return through(ctx, l, "get", func() (*corev1.Pod, error) { return l.PodInterface.Get(ctx, name, o) })
}

func (l *link) List(ctx context.Context, o metav1.ListOptions) (*corev1.PodList, error) {
	return through(ctx, l, "list", func() (*corev1.PodList, error) { return l.PodInterface.List(ctx, o) })
}

func (l *link) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return through(ctx, l, "watch", func() (watch.Interface, error) { return l.PodInterface.Watch(ctx, o) })
}

func (l *link) Patch(ctx context.Context, name string, pt types.PatchType, data []byte, o metav1.PatchOptions, sub ...string) (*corev1.Pod, error) {
	return through(ctx, l, "patch", func() (*corev1.Pod, error) {
		return l.PodInterface.Patch(context.WithoutCancel(ctx), name, pt, data, o, sub...)
	})
}

// A process is a candidate in a Pod.
type process struct {
	*link
	client *memory.Client
	log    wait.Log
	end    context.CancelFunc // SIGTERM
	ended  chan error         // what Lead has returned
}

// start starts a process in a Pod. lead is nil for one that works until its ctx ends.
func (c *cluster) start(name string, lead func(ctx context.Context, t *elector.Term) error) *process {
	return c.startWith(c.process(name), name, lead)
}

func (c *cluster) startWith(p *process, name string, lead func(ctx context.Context, t *elector.Term) error) *process {
	if lead == nil {
		lead = func(ctx context.Context, _ *elector.Term) error {
			<-ctx.Done()
			return ctx.Err()
		}
	}
	ctx, end := context.WithCancel(c.Context())
	p.end, p.ended = end, make(chan error, 1)
	l := kubernetes.Label{Pods: p.link, Key: key, Pod: name, Logger: slog.New(slog.NewTextHandler(&p.log, nil))}
	go func() {
		p.ended <- elector.Lead(ctx, elector.Config{
			Backend: p.client, Strategy: fair.Strategy{}, Election: "/reindex", ID: name, TTL: ttl,
		}, kubernetes.LabelLeader(l, lead))
	}()
	time.Sleep(time.Second)
	return p
}

func (c *cluster) process(name string) *process {
	return &process{link: &link{PodInterface: c.set.CoreV1().Pods("ns")}, client: c.service.Client(name)}
}

// cut is a link that swallows all requests.
func cut(ctx context.Context, _ string, _ func() error) error {
	<-ctx.Done()
	return ctx.Err()
}

// late returns a fault that sends patches when release is called, when their sender has given up.
func late(verb string) (fault func(context.Context, string, func() error) error, release func()) {
	released := make(chan struct{})
	return func(ctx context.Context, v string, request func() error) error {
		if v != verb {
			return request()
		}
		go func() {
			<-released
			_ = request()
		}()
		<-ctx.Done()
		return ctx.Err()
	}, func() { close(released) }
}

func TestLabelHandover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "a", "b", "x")
		returning := make(chan struct{})
		a := c.start("a", func(ctx context.Context, _ *elector.Term) error {
			<-ctx.Done()
			<-returning
			assert.Empty(t, c.bearers(), "while the work returns")
			return ctx.Err()
		})
		b := c.start("b", func(ctx context.Context, _ *elector.Term) error {
			assert.Equal(t, []string{"a", "-a"}, c.changes(), "off before the seat was free")
			<-ctx.Done()
			return ctx.Err()
		})
		assert.Equal(t, []string{"a"}, c.bearers())
		a.end()
		time.Sleep(time.Second)
		assert.Empty(t, c.bearers())
		close(returning)
		assert.NoError(t, <-a.ended)
		time.Sleep(time.Second)
		b.end()
		assert.NoError(t, <-b.ended)
		assert.Equal(t, []string{"a", "-a", "b", "-b"}, c.changes())
		assert.NotContains(t, a.log.String()+b.log.String(), "WARN")
	})
}

// The work ends by itself, or panics.
func TestLabelWorkEnds(t *testing.T) {
	for what, end := range map[string]func() error{
		"done":  func() error { return nil },
		"fails": func() error { return fmt.Errorf("it failed: %w", elector.ErrStop) },
		"panics": func() error {
			panic("oops")
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, "a")
				defer func() {
					if what == "panics" {
						assert.Equal(t, "oops", recover())
					}
					assert.Equal(t, []string{"a", "-a"}, c.changes())
				}()
				t.Setenv("POD_NAME", "a")
				e, err := elector.New(elector.Config{Backend: c.service.Client("a"), Strategy: fair.Strategy{}, Election: "/reindex", ID: "a"})
				require.NoError(t, err)
				defer e.Close(t.Context())
				_ = elector.Run(t.Context(), e, kubernetes.LabelLeader(kubernetes.Label{Pods: c.process("a").link, Key: key},
					func(context.Context, *elector.Term) error {
						time.Sleep(time.Second)
						assert.Equal(t, []string{"a"}, c.bearers())
						return end()
					}))
			})
		})
	}
}

// The next leader takes the label off a Pod whose process cannot.
func TestLabelCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "a", "b")
		a, b := c.start("a", nil), c.start("b", nil)
		crash := time.Now()
		a.breaks(cut)
		a.client.Suspend()
		for len(c.bearers()) == 1 && c.bearers()[0] == "a" {
			time.Sleep(time.Millisecond)
		}
		assert.LessOrEqual(t, time.Since(crash), ttl+time.Second)
		time.Sleep(time.Second)
		assert.Equal(t, []string{"b"}, c.bearers())
		assert.Equal(t, 1, c.mostAtOnce())
		time.Sleep(2 * time.Second)
		assert.True(t, a.log.Has("the label is left to the next leader"), a.log.String())
		assert.True(t, b.log.Has("the label was taken off another Pod"), b.log.String())

		// She comes back, and leads again when b goes.
		a.breaks(nil)
		a.client.Resume()
		time.Sleep(time.Minute)
		b.end()
		assert.NoError(t, <-b.ended)
		time.Sleep(time.Second)
		assert.Equal(t, []string{"a"}, c.bearers())
		assert.Equal(t, 1, c.mostAtOnce())
		a.end()
		<-a.ended
	})
}

// A request of an old leader that arrives when the next one leads.
func TestLabelLateRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "a", "b")
		a := c.process("a")
		fault, release := late("patch")
		a.breaks(fault)
		a = c.startWith(a, "a", nil)
		b := c.start("b", nil)
		a.breaks(cut)
		a.client.Suspend() // before she could end what she had begun
		time.Sleep(2 * ttl)
		require.Equal(t, []string{"b"}, c.bearers())
		release()
		time.Sleep(time.Second)
		assert.Equal(t, []string{"b", "a", "-a"}, c.changes(), "b takes it off")
		assert.Equal(t, []string{"b"}, c.bearers())
		a.end()
		b.end()
		<-a.ended
		<-b.ended
	})
}

// The end of a term writes, though the label seems to be off: a request that puts it on may be under way.
func TestLabelLateRequestIsDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "a")
		a := c.process("a")
		fault, release := late("patch")
		a.breaks(fault)
		a = c.startWith(a, "a", nil)
		a.breaks(nil)
		a.end()
		assert.NoError(t, <-a.ended)
		assert.Regexp(t, "^ended ", c.annotation("a"))
		release()
		time.Sleep(time.Second)
		assert.Empty(t, c.changes())
	})
}

// A request of an old term that takes the label off leaves the Pod's new term alone.
func TestLabelLateEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "a")
		a := c.start("a", nil)
		fault, release := late("patch")
		a.breaks(fault)
		a.end()
		assert.NoError(t, <-a.ended, "it does not wait for long")
		again := c.start("a", nil) // restarted, in the same Pod
		release()
		time.Sleep(time.Second)
		assert.Equal(t, []string{"a"}, c.bearers())
		again.end()
		<-again.ended
		assert.Equal(t, []string{"a", "-a"}, c.changes())
	})
}

// The API server does not answer: the term is none the worse.
func TestLabelNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "a")
		a := c.process("a")
		a.breaks(cut)
		began := time.Now()
		led := make(chan time.Time, 2)
		a = c.startWith(a, "a", func(ctx context.Context, term *elector.Term) error {
			led <- time.Now()
			<-ctx.Done()
			return ctx.Err()
		})
		assert.Less(t, (<-led).Sub(began), time.Second)
		time.Sleep(time.Hour)
		began = time.Now()
		a.end()
		assert.NoError(t, <-a.ended)
		assert.Less(t, time.Since(began), time.Second, "no request that puts it on was sent")

		a = c.startWith(a, "a", nil)
		a.breaks(nil)
		time.Sleep(20 * time.Second)
		assert.Equal(t, []string{"a"}, c.bearers())
		a.breaks(cut)
		began = time.Now()
		a.end()
		assert.NoError(t, <-a.ended)
		assert.Equal(t, 2*time.Second, time.Since(began).Truncate(time.Second))
	})
}

// Rights that are missing: each is named, and the term goes on.
func TestLabelForbidden(t *testing.T) {
	for _, verb := range []string{"get", "list", "watch", "patch"} {
		t.Run(verb, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, "a")
				a := c.process("a")
				forbidden := apierrors.NewForbidden(pods.GroupResource(), "a", fmt.Errorf(
					`User "system:serviceaccount:ns:reindex" cannot %s resource "pods" in API group "" in the namespace "ns"`, verb))
				a.breaks(func(_ context.Context, v string, request func() error) error {
					if v == verb {
						return forbidden
					}
					return request()
				})
				a = c.startWith(a, "a", nil)
				time.Sleep(time.Minute)
				assert.Regexp(t, `the label cannot be kept; trying again.*label=elector/reindex pod=a .*cannot `+verb+` resource .*pods.* in the namespace .*ns`, a.log.String())
				if verb == "watch" {
					c.write("a", "", "")
					time.Sleep(20 * time.Second)
					assert.Equal(t, []string{"a"}, c.bearers(), "it is put on again without a watch")
				} else {
					assert.Empty(t, c.bearers())
				}
				began := time.Now()
				a.end()
				assert.NoError(t, <-a.ended)
				assert.Less(t, time.Since(began), time.Second, "the end of the term waits for nothing")
			})
		})
	}
}

// What somebody does by hand, and other elections.
func TestLabelStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "a", "b", "x")
		c.write("x", "leader", "by hand")
		a := c.start("a", nil)
		assert.Equal(t, []string{"a"}, c.bearers())
		assert.Equal(t, 1, c.mostAtOnce())

		c.write("a", "", "")
		time.Sleep(time.Second)
		assert.Equal(t, []string{"a"}, c.bearers(), "put on again")
		c.write("x", "leader", "1")
		time.Sleep(time.Second)
		assert.Equal(t, []string{"a"}, c.bearers(), "taken off again")

		// A Pod with a later token is left alone.
		c.write("x", "leader", "99999999999999")
		time.Sleep(time.Minute)
		assert.Contains(t, c.bearers(), "x")
		assert.True(t, a.log.Has("does another election use this label?"), a.log.String())
		a.end()
		<-a.ended
		b := c.start("b", nil)
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"x"}, c.bearers(), "while x bears it")

		// So is one's own that a later term has marked.
		c.write("b", "", "ended 99999999999999")
		require.NoError(t, c.set.CoreV1().Pods("ns").Delete(t.Context(), "x", metav1.DeleteOptions{}))
		time.Sleep(20 * time.Second)
		assert.Empty(t, c.bearers())
		c.write("b", "", "")
		time.Sleep(20 * time.Second)
		assert.Equal(t, []string{"b"}, c.bearers())
		b.end()
		<-b.ended
	})
}

// Pods that are gone, and names that are wrong.
func TestLabelNoPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, "a")
		a := c.start("a", nil)
		require.NoError(t, c.set.CoreV1().Pods("ns").Delete(t.Context(), "a", metav1.DeleteOptions{}))
		a.end()
		assert.NoError(t, <-a.ended)
		assert.NotContains(t, a.log.String(), "WARN")

		b := c.start("nobody", nil)
		assert.Regexp(t, `put it on Pod nobody: .*not found`, b.log.String())
		b.end()
		assert.NoError(t, <-b.ended)
	})
}

func TestLabelConfig(t *testing.T) {
	c := newCluster(t)
	for says, l := range map[string]kubernetes.Label{
		"Label.Pods is nil": {Key: key},
		`Label.Key "": `:    {Pods: c.set.CoreV1().Pods("ns")},
		`Label.Key "/a/b"`:  {Pods: c.set.CoreV1().Pods("ns"), Key: "/a/b"},
	} {
		err := kubernetes.LabelLeader(l, nil)(t.Context(), nil)
		assert.ErrorContains(t, err, says)
		assert.ErrorIs(t, err, elector.ErrStop)
	}
	_, err := kubernetes.InClusterLabel(key)
	assert.ErrorContains(t, err, "kubernetes: ")
}
