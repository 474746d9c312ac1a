package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/services"
)

// A world is a service with processes at it.
type world interface {
	// open makes a process, with connections of its own.
	open() (process, error)
	// sessions is how many the service has.
	sessions() (int, error)
	// figures are the numbers of what the service has, and of the connections to it.
	figures() (census, error)
	close() error
}

// A process is a client of the service.
type process struct {
	services.Client
	doomed *atomic.Bool // its session ends because the line is cut
}

// asProcess makes a process of a client.
func asProcess(at services.Client, err error) (process, error) {
	return process{at, new(atomic.Bool)}, err
}

type memoryWorld struct{ services.Embedded }

func startMemory(cfg config) (world, error) {
	return memoryWorld{services.Embedded{Service: memory.New(memory.Options{DefaultTTL: cfg.ttl})}}, nil
}

func (m memoryWorld) open() (process, error) { return asProcess(m.Client()) }

func (m memoryWorld) sessions() (int, error) { return m.Stats().Sessions, nil }

func (m memoryWorld) figures() (census, error) {
	s := m.Stats()
	return census{{"sessions", s.Sessions}, {"entries", s.Entries}, {"watches", s.Watches}}, nil
}

func (m memoryWorld) close() error { return nil }

// lose cuts processes off, and blocks until the service has ended their sessions, of which
// each has one: when it has heard nothing of them for their timeout.
func lose(ctx context.Context, w world, ttl time.Duration, lost ...process) error {
	before, err := w.sessions()
	if err != nil {
		return err
	}
	for _, p := range lost {
		p.doomed.Store(true)
		p.Cut()
	}
	for end := time.Now().Add(ttl + patience); ; {
		now, err := w.sessions()
		switch {
		case err != nil:
			return err
		case now == before-len(lost):
			return nil
		case time.Now().After(end):
			return fmt.Errorf("of %d sessions the service has ended %d: %d were cut off", before, before-now, len(lost))
		}
		select {
		case <-time.After(tick):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
