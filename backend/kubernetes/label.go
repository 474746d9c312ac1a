package kubernetes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/watch"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/internal/delay"
)

// A Label says which label the leader's Pod bears. A Service that selects it beside the Deployment's labels
// leads to the leader. It works with every backend.
type Label struct {
	// Pods is clientset.CoreV1().Pods(namespace). Its user needs the verbs get, list, watch and patch for pods.
	Pods corev1client.PodInterface
	// Key is the label's key, such as "elector/reindex". Its value is "leader". Each election of a namespace needs
	// a key of its own. Neither the Deployment's selector nor its template may have it.
	Key string
	// Pod is the name of this process's Pod. Empty means the environment variable POD_NAME, or else the host name.
	Pod string
	// Logger logs what fails and is tried again, and labels taken from other Pods. Nil logs nothing.
	Logger *slog.Logger

	disconnect func() // closes the client's connections; nil: it cannot
}

const (
	labelValue = "leader"
	// farewell is how long the end of a term waits for the label to be off.
	farewell = 2 * time.Second
	// look is how often the Pods are listed, though a watch tells of nothing.
	look = time.Minute
)

// InClusterLabel returns a Label for the Pod that this process runs in, with the rights of its service
// account.
func InClusterLabel(key string) (Label, error) {
	config, namespace, err := inPod()
	if err != nil {
		return Label{}, err
	}
	config, disconnect := suited(config)
	core, err := corev1client.NewForConfig(config)
	if err != nil {
		return Label{}, fmt.Errorf("kubernetes: %w", err)
	}
	l := Label{Pods: core.Pods(namespace), Key: key, disconnect: disconnect}
	_, err = l.complete()
	return l, err
}

// LabelLeader returns a lead function for elector.Run and elector.Lead. It calls lead, and keeps the label on
// this process's Pod. As soon as the term ends, or the leader is asked to go, it takes the label off, while
// lead still returns. Only then Run frees the seat.
//
// The label does not hold up the term. lead is called at once, and what the API server refuses or does not
// answer is logged and tried again while the term lasts. At its end LabelLeader waits for the API server for
// two seconds at most.
//
// If the label is still on then, or the process has crashed, the next leader takes it off before it puts it
// on its own Pod. So an old leader's Pod bears it at most until the session has timed out, another leader is
// elected, and two requests of that leader are done. Two Pods bear it only if a request of the old leader is
// still under way when the next one looks: as soon as it is done, the next one learns that by its watch, and
// takes the label off.
//
// New connections follow the label when Kubernetes has told all nodes (EndpointSlices, kube-proxy), often
// within a second. Existing connections stay: close them when ctx ends (http.Server.Shutdown). The label
// leads clients, and fences nothing.
//
// If a process must load its state before it serves, its lead function calls LabelLeader(l, serve)(ctx, t)
// when it has done so.
//
// An annotation with the same key has the term's token, so that an old leader leaves a new one's label alone.
// If the tokens begin at a lower number, because the election has moved to another service, replace the Pods.
//
// A Label that is wrong ends Run at the first term, with an error that wraps elector.ErrStop.
func LabelLeader(l Label, lead func(ctx context.Context, t *elector.Term) error) func(ctx context.Context, t *elector.Term) error {
	l, err := l.complete()
	return func(ctx context.Context, t *elector.Term) error {
		if err != nil {
			return fmt.Errorf("%w: %w", err, elector.ErrStop)
		}
		k := &keeper{Label: l, term: t}
		keeping, stop := context.WithCancel(ctx)
		var keeper sync.WaitGroup
		keeper.Go(func() { k.keep(keeping) })
		defer keeper.Wait()
		defer stop()
		return lead(ctx, t)
	}
}

// complete checks the fields, and sets the defaults.
func (l Label) complete() (Label, error) {
	if l.Pods == nil {
		return l, errors.New("kubernetes: Label.Pods is nil")
	}
	if wrong := validation.IsQualifiedName(l.Key); wrong != nil {
		return l, fmt.Errorf("kubernetes: Label.Key %q: %s", l.Key, strings.Join(wrong, "; "))
	}
	if l.Logger == nil {
		l.Logger = slog.New(slog.DiscardHandler)
	}
	l.Pod = cmp.Or(l.Pod, os.Getenv("POD_NAME"))
	var err error
	if l.Pod == "" {
		l.Pod, err = os.Hostname()
	}
	l.Logger = l.Logger.With("label", l.Key, "pod", l.Pod)
	return l, err
}

// A keeper keeps the label on the Pod in one term.
//
// Each of its writes is conditional on the version of the Pod that it has read. So a write that arrives late
// fails if anything has been written since. At the end of the term it writes in any case, so that no earlier
// write of its own succeeds later.
type keeper struct {
	Label
	term *elector.Term
	sent bool // a request that puts the label on was sent
}

// keep keeps the label on until ctx ends, and then takes it off.
func (k *keeper) keep(ctx context.Context) {
	const shortest, longest, good = 100 * time.Millisecond, 10 * time.Second, 10 * time.Second
	var backoff delay.Backoff
	for ctx.Err() == nil {
		began := time.Now()
		err := k.hold(ctx)
		if errors.Is(err, context.DeadlineExceeded) && k.disconnect != nil {
			k.disconnect() // they may be dead, which the client finds out much later
		}
		if time.Since(began) > good {
			backoff.Attempt = 0
		}
		wait := backoff.Next(shortest, longest)
		if err != nil && ctx.Err() == nil {
			k.Logger.Warn("kubernetes: the label cannot be kept; trying again", "token", k.term.Token(), "attempt", backoff.Attempt, "wait", wait, "error", err)
		}
		_ = delay.Sleep(ctx, wait) // the loop looks at ctx
	}
	if !k.sent {
		return
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	if err := k.end(ending); err != nil {
		k.Logger.Warn("kubernetes: the label is left to the next leader", "token", k.term.Token(), "error", err)
	}
}

// hold takes the label off all other Pods, puts it on this one, and watches until something has to be done
// again.
func (k *keeper) hold(ctx context.Context) error {
	asking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	bearers, err := k.Pods.List(asking, k.selector())
	if err != nil {
		return fmt.Errorf("list the Pods that bear it: %w", err)
	}
	for i := range bearers.Items {
		if pod := &bearers.Items[i]; pod.Name != k.Pod {
			if err := k.takeFrom(ctx, pod); err != nil {
				return fmt.Errorf("take it off Pod %s: %w", pod.Name, err)
			}
		}
	}
	if err := k.put(ctx); err != nil {
		return fmt.Errorf("put it on Pod %s: %w", k.Pod, err)
	}
	if err := k.watch(ctx, bearers.ResourceVersion); err != nil {
		return fmt.Errorf("watch the Pods that bear it: %w", err)
	}
	return nil
}

func (k *keeper) selector() metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: k.Key + "=" + labelValue}
}

// takeFrom takes the label off another Pod.
func (k *keeper) takeFrom(ctx context.Context, pod *corev1.Pod) error {
	m := k.mark(pod)
	if !m.ended && m.token >= k.term.Token() {
		return fmt.Errorf("it bears it for token %d, and this term has %d: does another election use this label?", m.token, k.term.Token())
	}
	if !k.term.Valid() {
		return elector.ErrDeposed
	}
	err := k.patch(ctx, pod, nil, mark{max(m.token, k.term.Token()), true})
	if err == nil {
		k.Logger.Info("kubernetes: the label was taken off another Pod", "token", k.term.Token(), "from", pod.Name, "before", m.token)
	}
	return ignoreNotFound(err)
}

// put puts the label on this Pod.
func (k *keeper) put(ctx context.Context) error {
	pod, err := k.get(ctx)
	if err != nil {
		return err
	}
	m, own := k.mark(pod), mark{token: k.term.Token()}
	switch {
	case m.token > own.token:
		return fmt.Errorf("its annotation has token %d, and this term has %d: does another election use this label?", m.token, own.token)
	case m == own && pod.Labels[k.Key] == labelValue:
		return nil
	case !k.term.Valid():
		return elector.ErrDeposed
	}
	k.sent = true
	value := labelValue
	return k.patch(ctx, pod, &value, own)
}

// watch returns when another Pod bears the label, this one does not, or it is time to look again.
func (k *keeper) watch(ctx context.Context, version string) error {
	ctx, cancel := context.WithTimeout(ctx, look)
	defer cancel()
	options := k.selector()
	options.ResourceVersion = version
	w, err := k.Pods.Watch(ctx, options)
	if err != nil {
		return err
	}
	defer w.Stop()
	for {
		select {
		case e, open := <-w.ResultChan():
			if !open || e.Type == watch.Error {
				return nil // for example, the version is too old
			}
			pod, ok := e.Object.(*corev1.Pod)
			if ok && (e.Type != watch.Deleted && pod.Labels[k.Key] == labelValue) != (pod.Name == k.Pod) {
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// end takes the label off this Pod.
func (k *keeper) end(ctx context.Context) error {
	for {
		err := k.takeOff(ctx)
		if err == nil || apierrors.IsForbidden(err) || delay.Sleep(ctx, 50*time.Millisecond) != nil {
			return err
		}
	}
}

func (k *keeper) takeOff(ctx context.Context) error {
	pod, err := k.get(ctx)
	if err != nil {
		return ignoreNotFound(err)
	}
	ended := mark{k.term.Token(), true}
	if m := k.mark(pod); m.token > ended.token || m == ended && pod.Labels[k.Key] != labelValue {
		return nil
	}
	return ignoreNotFound(k.patch(ctx, pod, nil, ended))
}

func (k *keeper) get(ctx context.Context) (*corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return k.Pods.Get(ctx, k.Pod, metav1.GetOptions{})
}

// patch sets the label, or removes it if it is nil, and the annotation, if the Pod is still the one that was
// read.
func (k *keeper) patch(ctx context.Context, pod *corev1.Pod, label *string, m mark) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": pod.ResourceVersion,
		"labels":          map[string]*string{k.Key: label},
		"annotations":     map[string]string{k.Key: m.String()},
	}})
	if err != nil {
		return err
	}
	_, err = k.Pods.Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// ignoreNotFound returns nil if the Pod is gone.
func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// A mark is the annotation beside the label: the term that the Pod bears the label for, or the last one known
// when it was taken off. It is zero if there is none.
type mark struct {
	token uint64
	ended bool
}

const ended = "ended "

func (k *keeper) mark(pod *corev1.Pod) mark {
	text, over := strings.CutPrefix(pod.Annotations[k.Key], ended)
	token, err := strconv.ParseUint(text, 10, 64)
	if err != nil { // somebody else's
		return mark{}
	}
	return mark{token, over}
}

func (m mark) String() string {
	text := strconv.FormatUint(m.token, 10)
	if m.ended {
		return ended + text
	}
	return text
}
