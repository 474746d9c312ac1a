// Package kubernetes is a backend on Kubernetes: it keeps all elections of a Backend in one Lease of the API
// group coordination.k8s.io. Package backend/register has what that means, and its limits. It needs an API
// server, and no other service.
//
//	cfg, err := kubernetes.Connect(config, "shop", "worker") // or InCluster("worker")
//	…
//	b, err := kubernetes.New(cfg)
//
// # Rights
//
// A process needs get, patch and watch on the one Lease, by its resourceNames, if a manifest makes it, as
// deploy/kubernetes-lease.yaml does. Otherwise it also needs create on leases, which Kubernetes cannot limit to a name.
//
// # What people see
//
// The spec of the Lease mirrors the elections for "kubectl get lease": holderIdentity is "elector: " and the IDs of the
// candidates whose entries bear the leader's mark, or "nobody leads", and renewTime is the last write. It is empty when
// no session is left. Nothing is decided by it.
// The document is in an annotation.
//
// client-go's own election must not use the same Lease. A Lease that it holds is refused with an error that
// names the holder. While there are sessions in the document, client-go sees a Lease that is held and renewed. After a
// crash of client-go's leader its holderIdentity stays: clear it by kubectl patch.
//
// # What must not happen
//
// Who deletes or empties the Lease ends the election: a new leader may begin before the old one hears of it, at the
// latest with its next heartbeat. kubectl apply, Helm and server-side apply leave the annotation alone;
// kubectl replace, helm upgrade --force and a restore by velero do not.
//
// A Lease is in etcd, and its resource version is etcd's revision. After etcd was restored from a backup,
// versions may return that were used before, unless it was restored with --bump-revision. Stop all
// candidates before that, and the API servers, as Kubernetes asks: their watches tell nothing until etcd's revision has
// passed the old one, so candidates learn of changes by their heartbeats only.
//
// Each heartbeat writes the whole document to etcd. A few candidates with short values need some KiB.
package kubernetes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/watch"
	client "k8s.io/client-go/kubernetes/typed/coordination/v1"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
	"github.com/elector-go/elector/backend/register"
)

// The annotations of the Lease.
const (
	// Document is the annotation that holds all elections.
	Document = "elector/document"
	// Holder is the annotation that holds what this package has written to spec.holderIdentity. If the two
	// differ, somebody else has taken the Lease.
	Holder = "elector/holder"
)

// maxBytes is the maximum size of the document. Kubernetes limits all annotations of an object to 256 KiB.
const maxBytes = 200 << 10

// Config configures a Backend. Leases and Name are required.
type Config struct {
	// Leases is the client, for one namespace: clientset.CoordinationV1().Leases(namespace). Connect makes one that
	// suits elections. For a client of your own, two defaults of client-go do not: it sends five requests a second
	// (rest.Config.QPS), and it takes 45 seconds to find out that a connection is dead. For sessions that are shorter
	// than a minute set HTTP2_READ_IDLE_TIMEOUT_SECONDS=3 and HTTP2_PING_TIMEOUT_SECONDS=2 in its environment.
	Leases client.LeaseInterface
	// Name is the name of the Lease that holds all elections. No other Backend of this process should use it.
	Name string
	// SessionTimeout is the timeout of sessions for which Open gets none. Zero means register.DefaultTTL.
	SessionTimeout time.Duration
	// Logger logs changes of a session's state, and what is tried again. Nil logs nothing.
	Logger *slog.Logger

	disconnect func() // closes the client's connections; nil: it cannot
}

// Close closes the connections of a client that Connect or InCluster has made. Close the sessions first.
func (c Config) Close() {
	if c.disconnect != nil {
		c.disconnect()
	}
}

// New returns a Backend. It does not connect.
func New(cfg Config) (*register.Backend, error) {
	switch {
	case cfg.Leases == nil:
		return nil, errors.New("kubernetes: Config.Leases is nil")
	case cfg.Name == "":
		return nil, errors.New("kubernetes: Config.Name is empty")
	}
	if wrong := validation.IsDNS1123Subdomain(cfg.Name); len(wrong) > 0 {
		return nil, fmt.Errorf("kubernetes: the name of the Lease, %q: %s", cfg.Name, strings.Join(wrong, "; "))
	}
	s := &store{Config: cfg, may: make(map[string]bool)}
	s.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return register.New(register.Config{Name: "kubernetes", Store: s, MaxBytes: maxBytes, SessionTimeout: cfg.SessionTimeout, Logger: cfg.Logger})
}

// A store is a Lease. The tag is its resource version.
type store struct {
	Config

	mu       sync.Mutex
	known    known
	may      map[string]bool // the verbs that have succeeded
	answered time.Time       // when the server has answered last
	closed   time.Time       // when connections were taken for dead last
}

// known is what the mirror needs of the Lease that was read or written last.
type known struct {
	tag, holder string
	transitions int32
}

// patience is how long a request waits for its answer, so that a session outlives a dead connection.
const patience = 5 * time.Second

// request makes one request. The error of a request that has failed is one of package backend if nothing was
// written, and errAbsent if there is no Lease to get.
func (s *store) request(ctx context.Context, verb string, do func(context.Context) (*coordination.Lease, error)) (*coordination.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	sent := time.Now()
	lease, err := do(ctx)
	if s.dead(ctx, sent) {
		s.Close() // the next request makes another
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.may[verb] = true
		return lease, nil
	}
	refused := (apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)) && !passes(err)
	may := s.may[verb] || apierrors.IsUnauthorized(err) && len(s.may) > 0 // and will be again
	switch named := fmt.Errorf("%s Lease %s: %w", verb, s.Name, err); {
	case apierrors.IsUnexpectedServerError(err): // somebody between has answered
		return nil, named
	case apierrors.IsNotFound(err):
		s.may[verb] = true
		switch verb {
		case "get":
			return nil, errAbsent
		case "patch":
			return nil, register.ErrMoved
		}
		return nil, fmt.Errorf("%w: %w", backend.ErrUnavailable, named) // there is no namespace
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return nil, register.ErrMoved
	case apierrors.IsRequestEntityTooLargeError(err), apierrors.IsInvalid(err) && strings.Contains(err.Error(), "annotations: Too long"):
		return nil, fmt.Errorf("%w: %w", backend.ErrTooLarge, named)
	case refused && !may:
		return nil, fmt.Errorf("%w: %w", backend.ErrDenied, named)
	case verb != "get" && s.disconnect == nil: // it may have been done: without once, client-go may have sent it twice
		return nil, named
	case refused, passes(err), apierrors.IsTooManyRequests(err), apierrors.IsBadRequest(err), apierrors.IsInvalid(err):
		return nil, fmt.Errorf("%w: %w", backend.ErrUnavailable, named)
	default:
		return nil, named
	}
}

var errAbsent = errors.New("there is no Lease")

// dead notes whether a request was answered that was sent then, and reports whether to take its connection for dead.
func (s *store) dead(ctx context.Context, sent time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() == nil {
		s.answered = time.Now()
		return false
	}
	if !s.answered.Before(sent) || time.Since(sent) <= time.Second/2 || time.Since(s.closed) <= patience {
		return false // the server may be slow, and callers in a hurry
	}
	s.closed = time.Now()
	return true
}

// passes reports whether the API server forbids what it may allow later: until it is ready, until there is room, or in
// a new namespace.
func passes(err error) bool {
	if apierrors.HasStatusCause(err, core.NamespaceTerminatingCause) {
		return true
	}
	return apierrors.IsForbidden(err) && slices.ContainsFunc([]string{"not yet ready to handle request", "exceeded quota", "status unknown for quota"},
		func(text string) bool { return strings.Contains(err.Error(), text) })
}

// Read implements register.Store.
func (s *store) Read(ctx context.Context) (object []byte, tag string, err error) {
	lease, err := s.request(ctx, "get", func(ctx context.Context) (*coordination.Lease, error) {
		return s.Leases.Get(ctx, s.Name, meta.GetOptions{}) // without a resource version: what etcd has now
	})
	switch {
	case errors.Is(err, errAbsent):
		s.note(known{})
		return nil, "", nil
	case err != nil:
		return nil, "", err
	}
	s.note(known{lease.ResourceVersion, value(lease.Spec.HolderIdentity), value(lease.Spec.LeaseTransitions)})
	return s.open(lease)
}

// open returns the document in a Lease. A holder that was cleared frees the Lease for client-go, and for others.
func (s *store) open(lease *coordination.Lease) (object []byte, tag string, err error) {
	if holder := value(lease.Spec.HolderIdentity); holder != "" && holder != lease.Annotations[Holder] {
		return nil, "", fmt.Errorf("%w: the Lease %s is held by %q, perhaps by client-go's leader election: give this election a Lease of its own",
			register.ErrForeign, s.Name, holder)
	}
	if document, there := lease.Annotations[Document]; there {
		object = []byte(document)
	}
	return object, lease.ResourceVersion, nil
}

func (s *store) note(k known) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = k
}

// Swap implements register.Store. It patches the Lease, on condition of its resource version, so that labels,
// owners and other annotations stay. An update would not be conditional for a Lease that was deleted: the API
// server would make it again.
func (s *store) Swap(ctx context.Context, object []byte, tag string) (newTag string, err error) {
	spec, now := s.mirror(object, tag)
	annotations := map[string]string{Document: string(object), Holder: now.holder}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": tag, "annotations": annotations}, "spec": spec})
	if err != nil {
		return "", err
	}
	verb := "patch"
	if tag == "" {
		verb = "create"
	}
	lease, err := s.request(ctx, verb, func(ctx context.Context) (*coordination.Lease, error) {
		if tag == "" {
			made := &coordination.Lease{ObjectMeta: meta.ObjectMeta{Name: s.Name, Annotations: annotations}, Spec: spec}
			return s.Leases.Create(ctx, made, meta.CreateOptions{FieldManager: manager})
		}
		return s.Leases.Patch(ctx, s.Name, types.MergePatchType, patch, meta.PatchOptions{FieldManager: manager})
	})
	switch {
	case err != nil:
		return "", err
	case lease.ResourceVersion == tag || lease.ResourceVersion == "" || lease.Annotations[Document] != string(object):
		return "", fmt.Errorf("write Lease %s: the API server has answered with success, and has not kept what was written: look for an admission webhook", s.Name)
	}
	now.tag = lease.ResourceVersion
	s.note(now)
	return lease.ResourceVersion, nil
}

const manager = "elector"

// mirror returns the spec that shows people what a document holds, and what will be known once it is written.
func (s *store) mirror(object []byte, tag string) (coordination.LeaseSpec, known) {
	s.mu.Lock()
	before := s.known
	s.mu.Unlock()
	holder, leads, seconds := summary(object)
	now := meta.NowMicro()
	spec := coordination.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &now}
	after := known{holder: holder}
	if tag == "" {
		before = known{}
	}
	if before.tag == tag { // else the count is not known, and stays
		after.transitions = before.transitions
		if leads && holder != before.holder {
			spec.AcquireTime = &now
			after.transitions = min(after.transitions, math.MaxInt32-1) + 1
		}
		spec.LeaseTransitions = &after.transitions
	}
	return spec, after
}

// longestHolder is the maximum length of what the mirror says in bytes: heartbeats must find room.
const longestHolder = 1 << 10

// summary returns who leads by a document, whether somebody does, and the longest session timeout in seconds. If there
// are sessions, the holder is not empty, and no ID that client-go may have: it must not take the Lease then.
func summary(object []byte) (holder string, leads bool, seconds int32) {
	sum, err := register.Summarize(object)
	if err != nil || len(sum.Sessions) == 0 {
		return "", false, 1
	}
	var ids []string
	for _, e := range sum.Entries {
		var candidate struct {
			ID    string `json:"id"`
			Leads bool   `json:"leads"`
		}
		if e.Session != "" && json.Unmarshal(e.Value, &candidate) == nil && candidate.Leads {
			ids = append(ids, candidate.ID)
		}
	}
	var longest time.Duration
	for _, ttl := range sum.Sessions {
		longest = max(longest, ttl)
	}
	holder = "elector: " + cmp.Or(strings.Join(ids, ", "), "nobody leads")
	if len(holder) > longestHolder {
		holder = strings.ToValidUTF8(holder[:longestHolder], "") + "…"
	}
	return holder, len(ids) > 0, int32(min(longest, register.MaxTTL).Seconds()) + 1
}

// quiet is how long a watch may show nothing before it is begun again: it may be dead. Heartbeats are shown,
// too, and come more often with the usual session timeouts.
const quiet = 20 * time.Second

// Notify implements register.Notifier. After each watch the Lease is read.
func (s *store) Notify(ctx context.Context, changed func(object []byte, tag string)) {
	var pause driver.Pause
	failing := false
	for ctx.Err() == nil {
		began := time.Now()
		err := s.watch(ctx, changed)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !failing {
			s.Logger.Warn("kubernetes: a watch cannot be set; reading instead", "lease", s.Name, "error", err)
		}
		failing = err != nil
		changed(nil, "")
		if !failing && time.Since(began) > time.Second {
			pause = driver.Pause{}
			continue
		}
		pause.Wait(ctx)
	}
}

// watch passes on the events of one watch, until it ends. A new watch begins with the Lease as the server's cache has
// it. That may be older than what was read or written, or from before etcd was restored: so it is read instead.
func (s *store) watch(ctx context.Context, changed func(object []byte, tag string)) error {
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	dead := time.AfterFunc(quiet, cancel)
	defer dead.Stop()
	w, err := s.Leases.Watch(watching, s.only())
	if err != nil {
		return err
	}
	defer w.Stop()
	events := 0
	var swap uint64 // of the last event
	for e := range w.ResultChan() {
		events++
		dead.Reset(quiet)
		lease, is := e.Object.(*coordination.Lease)
		switch {
		case e.Type == watch.Error && events > 1: // it could be set, and has ended: its connection is closed, or it was quiet
			return nil
		case e.Type == watch.Error:
			return apierrors.FromObject(e.Object)
		case e.Type == watch.Bookmark, is && s.older(lease):
			continue
		case is && e.Type != watch.Deleted:
			object, tag, err := s.open(lease)
			before := swap
			if sum, err := register.Summarize(object); err == nil {
				swap = sum.Swap
			}
			// If the number falls, somebody has put an earlier document there, which looks like a late notice.
			if e.Type == watch.Modified && err == nil && object != nil && swap >= before {
				changed(object, tag)
				continue
			}
		}
		changed(nil, "")
	}
	return nil
}

// older reports whether a Lease is older than what was read or written last.
func (s *store) older(lease *coordination.Lease) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	order, err := resourceversion.CompareResourceVersion(lease.ResourceVersion, s.known.tag)
	return err == nil && order < 0
}

// Examine implements register.Examiner.
func (s *store) Examine(ctx context.Context) ([]register.Finding, error) {
	lease, err := s.request(ctx, "get", func(ctx context.Context) (*coordination.Lease, error) {
		return s.Leases.Get(ctx, s.Name, meta.GetOptions{})
	})
	if err != nil && !errors.Is(err, errAbsent) {
		return nil, err
	}
	size := 0
	if err == nil {
		size = len(lease.Annotations[Document])
	}
	room := register.Finding{Check: "size", Says: fmt.Sprintf("the document has %d bytes, at most %d", size, maxBytes)}
	if size > maxBytes/2 {
		room.Do = "use shorter values, or a Lease for each election: every heartbeat writes it all"
	}
	found := []register.Finding{room}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	watched := register.Finding{Check: "watch", Says: fmt.Sprintf("Lease %s can be watched", s.Name)}
	if w, err := s.Leases.Watch(ctx, s.only()); err == nil {
		w.Stop()
	} else {
		watched.Says, watched.Do = fmt.Sprintf("Lease %s cannot be watched: %v", s.Name, err), "grant the verb watch: without it, candidates learn of changes late"
	}
	return append(found, watched), nil
}

// only selects the Lease.
func (s *store) only() meta.ListOptions {
	return meta.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", s.Name).String()}
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
