package kubernetes_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
)

// A server speaks the Lease API of one namespace, as an API server does: resource versions, conflicts, merge
// patches, watches. The long tests try a real one.
type server struct {
	*httptest.Server
	refuse func(*http.Request) *status // nil: it refuses nothing; set before requests come
	first  object                      // what each watch begins with; nil: the Lease

	mu      sync.Mutex
	instead func(http.ResponseWriter, *http.Request) bool // answers in the server's place
	version int
	leases  map[string]object
	watches map[chan event]string // by the Lease's name
}

type (
	object = map[string]any
	event  struct {
		Type   string `json:"type"`
		Object any    `json:"object"`
	}
)

// A status is an answer that is no Lease.
type status struct {
	Kind    string `json:"kind"`
	Version string `json:"apiVersion"`
	Status  string `json:"status"`
	Code    int    `json:"code"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

func refusal(code int, reason, message string) *status {
	return &status{Kind: "Status", Version: "v1", Status: "Failure", Code: code, Reason: reason, Message: message}
}

// spoken is what the server understands. With a real one, client-go speaks protobuf.
var spoken = rest.ContentConfig{ContentType: "application/json"}

const namespace = "/apis/coordination.k8s.io/v1/namespaces/shop/leases"

func serve(t testing.TB) *server {
	s := &server{version: 1000, leases: make(map[string]object), watches: make(map[chan event]string)}
	s.Server = httptest.NewUnstartedServer(s)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(func() {
		s.CloseClientConnections() // watches
		s.Close()
	})
	return s
}

// answer lets a function answer in the server's place. It reports whether it has.
func (s *server) answer(instead func(http.ResponseWriter, *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.instead = instead
}

// client returns a client with connections of its own.
func (s *server) client(t testing.TB) (leases client.LeaseInterface, close func()) {
	transport := s.Client().Transport.(*http.Transport).Clone()
	c, err := client.NewForConfig(&rest.Config{Host: s.URL, Transport: transport, QPS: -1, ContentConfig: spoken})
	require.NoError(t, err)
	return c.Leases("shop"), transport.CloseIdleConnections
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.refuse != nil {
		if no := s.refuse(r); no != nil {
			answer(w, no.Code, no)
			return
		}
	}
	s.mu.Lock()
	instead := s.instead
	s.mu.Unlock()
	if instead != nil && instead(w, r) {
		return
	}
	name, rest := strings.CutPrefix(r.URL.Path, namespace)
	name = strings.TrimPrefix(name, "/")
	body, err := io.ReadAll(r.Body)
	if !rest || err != nil {
		answer(w, http.StatusNotFound, refusal(http.StatusNotFound, "NotFound", fmt.Sprintf("namespaces %q not found", r.URL.Path)))
		return
	}
	if r.Method == http.MethodGet && r.URL.Query().Get("watch") != "" {
		s.watch(w, r, strings.TrimPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name="))
		return
	}
	code, said := s.do(r.Method, name, body)
	answer(w, code, said)
}

func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}

// do serves one request that is no watch.
func (s *server) do(method, name string, body []byte) (code int, said any) {
	var sent object
	if len(body) > 0 {
		if err := json.Unmarshal(body, &sent); err != nil {
			return http.StatusBadRequest, refusal(http.StatusBadRequest, "BadRequest", err.Error())
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if method == http.MethodPost {
		name = meta(sent)["name"].(string)
	}
	lease, there := s.leases[name]
	switch {
	case method == http.MethodPost && there:
		return http.StatusConflict, refusal(http.StatusConflict, "AlreadyExists", fmt.Sprintf("leases %q already exists", name))
	case method == http.MethodPost:
		return http.StatusCreated, s.put(name, sent, "ADDED")
	case !there:
		return http.StatusNotFound, refusal(http.StatusNotFound, "NotFound", fmt.Sprintf("leases %q not found", name))
	case method == http.MethodGet:
		return http.StatusOK, lease
	}
	version := meta(lease)["resourceVersion"]
	next := sent // PUT
	if method == http.MethodPatch {
		next = merge(lease, sent)
	}
	if meta(next)["resourceVersion"] != version {
		return http.StatusConflict, refusal(http.StatusConflict, "Conflict", "the object has been modified")
	}
	size := 0
	for k, v := range annotations(next) {
		size += len(k) + len(v.(string))
	}
	switch {
	case size > 256<<10:
		return http.StatusUnprocessableEntity, refusal(http.StatusUnprocessableEntity, "Invalid", "metadata.annotations: Too long: may not be more than 262144 bytes")
	case bytes.Equal(encoded(next), encoded(lease)):
		return http.StatusOK, lease // nothing is written
	}
	return http.StatusOK, s.put(name, next, "MODIFIED")
}

// put stores a Lease. The caller holds mu.
func (s *server) put(name string, lease object, what string) object {
	s.version++
	lease = maps.Clone(lease)
	m := maps.Clone(meta(lease))
	m["resourceVersion"], m["namespace"] = strconv.Itoa(s.version), "shop"
	lease["metadata"], lease["kind"], lease["apiVersion"] = m, "Lease", "coordination.k8s.io/v1"
	s.leases[name] = lease
	s.tell(name, event{what, lease})
	return lease
}

func (s *server) tell(name string, e event) {
	for events, of := range s.watches {
		if of == name {
			events <- e
		}
	}
}

// delete removes a Lease, as an operator does.
func (s *server) delete(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tell(name, event{"DELETED", s.leases[name]})
	delete(s.leases, name)
}

// watched reports whether there is a watch.
func (s *server) watched() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.watches) > 0
}

// cut ends all watches, after a last event if there is one.
func (s *server) cut(last *event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for events := range s.watches {
		if last != nil {
			events <- *last
		}
		close(events)
		delete(s.watches, events)
	}
}

// watch begins with the Lease as it is.
func (s *server) watch(w http.ResponseWriter, r *http.Request, name string) {
	events := make(chan event, 10000)
	s.mu.Lock()
	if lease, there := s.leases[name]; s.first != nil {
		events <- event{"ADDED", s.first}
	} else if there {
		events <- event{"ADDED", lease}
	}
	s.watches[events] = name
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watches, events)
	}()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	for {
		_ = http.NewResponseController(w).Flush()
		select {
		case e, open := <-events:
			if !open || json.NewEncoder(w).Encode(e) != nil {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}

func meta(o object) object        { m, _ := o["metadata"].(object); return m }
func annotations(o object) object { a, _ := meta(o)["annotations"].(object); return a }

// merge returns an object with a patch by RFC 7396.
func merge(o, patch object) object {
	merged := maps.Clone(o)
	if merged == nil {
		merged = make(object)
	}
	for k, v := range patch {
		switch part, is := v.(object); {
		case is:
			old, _ := merged[k].(object)
			merged[k] = merge(old, part)
		case v == nil:
			delete(merged, k)
		default:
			merged[k] = v
		}
	}
	return merged
}

func encoded(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
