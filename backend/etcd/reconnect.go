package etcd

import (
	"context"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/connectivity"
)

// reconnects are the sessions of a Backend. They send a heartbeat as soon as the client's connection is
// back: the servers may have been restored meanwhile, and another session may lead (see history.go).
type reconnects struct {
	mu       sync.Mutex
	sessions map[*session]bool
	stop     context.CancelFunc // ends the goroutine that watches the connection
}

func (r *reconnects) add(client *clientv3.Client, s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.sessions) == 0 {
		r.sessions = make(map[*session]bool)
		var ctx context.Context
		ctx, r.stop = context.WithCancel(client.Ctx())
		go r.watch(ctx, client)
	}
	r.sessions[s] = true
}

func (r *reconnects) remove(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sessions, s)
	if len(r.sessions) == 0 {
		r.stop()
	}
}

// watch pokes the sessions each time the connection comes back after it was lost.
func (r *reconnects) watch(ctx context.Context, client *clientv3.Client) {
	conn := client.ActiveConnection()
	for state, was := conn.GetState(), false; ; {
		was = was || state == connectivity.Ready
		if !conn.WaitForStateChange(ctx, state) {
			return
		}
		if state = conn.GetState(); was && state == connectivity.Ready {
			r.poke()
		}
	}
}

func (r *reconnects) poke() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for s := range r.sessions {
		s.broken.Store(true)
		s.BeatSoon()
	}
}
