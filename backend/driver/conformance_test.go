package driver_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance"
)

// TestToy checks that the kit and eight small methods make a backend: the toy passes the suite.
func TestToy(t *testing.T) {
	conformance.TestBackend(t, func(testing.TB) *conformance.Service {
		service := newToy()
		return &conformance.Service{
			Name: "toy", Root: "/conformance", TTL: 9 * time.Second, Virtual: true,
			Client: func(testing.TB) *conformance.Client {
				p := &process{toy: service}
				cut := func(cut bool) func() {
					return func() {
						service.mu.Lock()
						defer service.mu.Unlock()
						p.cut = cut
					}
				}
				return &conformance.Client{Backend: p, Suspend: cut(true), Resume: cut(false)}
			},
			Delete: func(key string) error { service.operate(func() { service.deleteAll(key) }); return nil },
			Put: func(key string, value []byte) error {
				service.operate(func() {
					_, _ = service.commit("", nil, []backend.Op{backend.CompareAndSet(key, value, service.at(key).Version)})
				})
				return nil
			},
			Why: map[string]string{
				conformance.Rest:    "the toy has none",
				"session/close-cut": "Close does not wait for a link",
			},
		}
	})
}

// operate makes a change as an operator does.
func (t *toy) operate(do func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rev++
	do()
	t.changed.Fire()
}

func (t *toy) deleteAll(key string) {
	maps.DeleteFunc(t.entries, func(k string, _ record) bool { return k == key || strings.HasPrefix(k, key+"/") })
}
