package consul

import (
	"context"
	"sync"
	"time"
)

// reaper removes in the background what abandoned commits may have left. It is one
// goroutine per session, there only while there is something to do.
type reaper struct {
	mu      sync.Mutex
	jobs    []func(context.Context) error
	running bool
}

// reap has a job done, again and again until it succeeds or the session is lost.
func (s *session) reap(job func(context.Context) error) {
	r := &s.reaper
	r.mu.Lock()
	defer r.mu.Unlock()
	r.jobs = append(r.jobs, job)
	if r.running || !s.begin() {
		return // the entries of a lost session go by themselves
	}
	r.running = true
	go func() {
		defer s.calls.Done()
		s.reapAll()
	}()
}

func (s *session) reapAll() {
	const pause = time.Second
	for {
		s.reaper.mu.Lock()
		if len(s.reaper.jobs) == 0 || s.ctx.Err() != nil {
			s.reaper.jobs, s.reaper.running = nil, false
			s.reaper.mu.Unlock()
			return
		}
		job := s.reaper.jobs[0]
		s.reaper.jobs = s.reaper.jobs[1:]
		s.reaper.mu.Unlock()
		err := job(s.ctx)
		if err == nil || s.ctx.Err() != nil {
			continue
		}
		s.b.cfg.Logger.Warn("consul: an entry could not be removed; trying again", "session", s.id, "error", err)
		s.reaper.mu.Lock()
		s.reaper.jobs = append(s.reaper.jobs, job)
		s.reaper.mu.Unlock()
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-s.ctx.Done():
			timer.Stop()
		}
	}
}
