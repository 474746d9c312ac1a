package etcd

import (
	"fmt"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// A feed ends if it hears for a while of more than it is worth, but not because of the session's own entries.
func TestFeedHearsWhatNobodyAwaits(t *testing.T) {
	for _, test := range []struct {
		name   string
		events int
		lease  clientv3.LeaseID
		size   int
		age    time.Duration
		ends   bool
	}{
		{"few", mostUnawaited, 2, 0, time.Hour, false},
		{"many", mostUnawaited + 1, 2, 0, time.Hour, true},
		{"many at once", 10 * mostUnawaited, 2, 0, 0, false},
		{"own", 10 * mostUnawaited, 1, 0, time.Hour, false},
		{"large", 100, 2, 20 * unawaitedBytes, time.Hour, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := started(t, &clientv3.LeaseGrantResponse{ID: 1, TTL: 600}, time.Now())
			f := &feed{path: "/p", from: time.Now().Add(-test.age)}
			var events []*clientv3.Event
			for i := range test.events {
				key := aloneKey("/p/e/d", formatSession(test.lease), fmt.Sprintf("%016x", i))
				events = append(events, &clientv3.Event{Kv: &mvccpb.KeyValue{Key: []byte(key), ModRevision: int64(i + 1), Value: make([]byte, test.size)}})
			}
			if err := s.watches.deliver(f, events); (err != nil) != test.ends {
				t.Error(err)
			}
			if f.pos != int64(test.events) {
				t.Error(f.pos)
			}
		})
	}
}
