package main

import (
	"context"
	"sync"
	"time"

	"github.com/elector-go/elector/backend"
)

// A link connects one process to the service. *memory.Client is one.
type link interface {
	backend.Backend
	Suspend() // the process is paused: no heartbeats
	Resume()
}

// A remote is the link to a service outside this process. Both processes of the story are this one, so one of
// them cannot be paused alone. Instead its session is closed, which is what the service does when a pause
// exceeds the session timeout.
type remote struct {
	backend.Backend

	mu       sync.Mutex
	sessions []*backend.Session
}

func (r *remote) Open(ctx context.Context, o backend.OpenOptions) (*backend.Session, error) {
	s, err := r.Backend.Open(ctx, o)
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.sessions = append(r.sessions, s)
	}
	return s, err
}

func (r *remote) Suspend() {
	r.mu.Lock()
	defer r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, s := range r.sessions {
		_ = s.Close(ctx) // what is not confirmed, the service does later
	}
}

func (r *remote) Resume() {}
