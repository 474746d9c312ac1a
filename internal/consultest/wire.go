package consultest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector/internal/servicetest"
)

// A Request is a client's request on its way to the servers. Changes to it are sent.
type Request struct {
	*http.Request
	Content []byte     // its body
	Txn     api.TxnOps // if it is a transaction

	send func() (*http.Response, error)
}

// Send passes the request on.
func (r *Request) Send() (*http.Response, error) { return r.send() }

// For reports whether the request is for this part of the API.
func (r *Request) For(part string) bool { return strings.HasPrefix(r.URL.Path, "/v1/"+part) }

// Asks reports whether the request has a parameter.
func (r *Request) Asks(parameter string) bool { return r.URL.Query().Has(parameter) }

// Blocking reports whether the request waits for a change.
func (r *Request) Blocking() bool {
	index := r.URL.Query().Get("index")
	return index != "" && index != "0"
}

// A Handler is between the client and its connections. It may send the request, once or not at all, may
// change it first, and returns any reply.
type Handler func(*Request) (*http.Response, error)

// over is a client's http.RoundTripper: each request goes through the handlers of the wire, and to a
// transport.
type over struct {
	*wire
	to http.RoundTripper
}

// wire is between the clients of a process and their connections.
type wire struct {
	*servicetest.Faults[api.TxnOps]

	mu       sync.Mutex
	handlers []*Handler
	sessions []string      // made by the process, newest last
	held     chan struct{} // closed when replies to blocking queries may pass; nil: they may
	waiting  *atomic.Int64 // counts blocking queries
}

func (w over) RoundTrip(request *http.Request) (*http.Response, error) {
	var body []byte
	if request.Body != nil {
		var err error
		body, err = io.ReadAll(request.Body)
		_ = request.Body.Close()
		if err != nil {
			return nil, err
		}
	}
	r := &Request{Request: request.Clone(request.Context()), Content: body} // the handlers may change it
	if request.Body != nil {
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	if !r.For("txn") || json.Unmarshal(body, &r.Txn) != nil {
		r.Txn = nil
	}
	send := func() (*http.Response, error) { return w.send(r) }
	w.mu.Lock()
	handlers := slices.Clone(w.handlers)
	w.mu.Unlock()
	for _, h := range handlers {
		next := *r
		next.send = send
		send = func() (*http.Response, error) { return (*h)(&next) }
	}
	return send()
}

// tells reports whether the reply to a request that checks for changes may report one.
func tells(r *Request, response *http.Response) bool {
	return r.Asks("keys") && !r.Asks("separator") || r.Asks("consistent") && response.StatusCode == http.StatusConflict
}

// send sends a request, unless a fault prevents it.
func (w over) send(r *Request) (*http.Response, error) {
	switch {
	case w.Throttled(): // as limits.request_limits does
		return Answer(http.StatusTooManyRequests, "rate limit exceeded, try again later or against a different server"), nil
	case w.Denied() && (r.For("kv/") || r.For("txn")):
		return Answer(http.StatusForbidden, "Permission denied: token lacks permission 'key:write'"), nil
	case r.Txn != nil:
		return servicetest.Do(r.Context(), w.Faults, r.Txn, func(ctx context.Context) (*http.Response, error) {
			return w.pass(r, r.WithContext(ctx))
		}, func(unread *http.Response) { _ = unread.Body.Close() })
	}
	return w.pass(r, r.Request)
}

func (w over) pass(r *Request, as *http.Request) (*http.Response, error) {
	if r.Blocking() && w.waiting != nil {
		w.waiting.Add(1)
		defer w.waiting.Add(-1)
	}
	response, err := w.to.RoundTrip(as)
	switch {
	case err != nil:
	case r.Blocking(), tells(r, response):
		err = w.hold(as)
	case r.For("session/create"):
		err = w.note(response)
	}
	if err != nil && response != nil {
		_ = response.Body.Close()
		response = nil
	}
	return response, err
}

// note remembers the session that was made.
func (w *wire) note(response *http.Response) error {
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(body))
	var made struct{ ID string }
	if response.StatusCode != http.StatusOK || json.Unmarshal(body, &made) != nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sessions = append(w.sessions, made.ID)
	return nil
}

// Sessions returns the sessions that the servers granted to the process, newest last.
func (w *wire) Sessions() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.sessions)
}

// Intercept puts a handler between the client and its connections, before the existing ones, until
// remove is called.
func (w *wire) Intercept(h Handler) (remove func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.handlers = append(w.handlers, &h)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.handlers = slices.DeleteFunc(w.handlers, func(o *Handler) bool { return o == &h })
	}
}

// HoldWakeups holds the replies that report changes, to blocking queries and to looks that come with
// heartbeats, until release is called.
func (w *wire) HoldWakeups() (release func()) {
	held := make(chan struct{})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = held
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.held = nil
		close(held)
	}
}

func (w *wire) hold(request *http.Request) error {
	w.mu.Lock()
	held := w.held
	w.mu.Unlock()
	if held == nil {
		return nil
	}
	select {
	case <-held:
		return nil
	case <-request.Context().Done():
		return request.Context().Err()
	}
}

// Answer makes a reply that no server gave.
func Answer(status int, text string) *http.Response {
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), ProtoMajor: 1, ProtoMinor: 1,
		Header: make(http.Header), Body: io.NopCloser(strings.NewReader(text)), ContentLength: int64(len(text)),
	}
}
