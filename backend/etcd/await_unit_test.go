package etcd

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector/backend"
)

// A result that a watch has passed to a waiter counts, even if the watch is dropped right after that.
func TestToldAndDropped(t *testing.T) {
	s := started(t, &clientv3.LeaseGrantResponse{ID: 1, TTL: 600}, time.Now())
	e := backend.Entry{Key: "/a", Rev: 1, Version: 1}
	for range 50 {
		w, dropped := newWaiter([]backend.Entry{backend.Unknown("/a")}, 0), &watch{}
		dropped.ctx, dropped.cancel = context.WithCancel(s.Ctx)
		w.out <- []backend.Entry{e}
		dropped.cancel()
		seen, err := s.told(t.Context(), w, dropped)
		if err != nil || !seen[0].Same(e) {
			t.Fatal(seen, err)
		}
	}
}
