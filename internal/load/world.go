package main

import (
	"context"
	"fmt"
	"time"

	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/program"
	"github.com/elector-go/elector/internal/services"
)

// A world is a service with processes that use it.
type world interface {
	// open makes a process with separate connections.
	open() (services.Client, error)
	// figures counts what the service has, "sessions" among them, and the connections to it.
	figures() (census, error)
	close() error
}

type memoryWorld struct{ services.Embedded }

func startMemory(cfg config) (world, error) {
	return memoryWorld{services.Embedded{Service: memory.New(memory.Options{DefaultTTL: cfg.ttl})}}, nil
}

func (m memoryWorld) open() (services.Client, error) { return m.Client() }

func (m memoryWorld) figures() (census, error) {
	s := m.Stats()
	return census{"sessions": s.Sessions, "entries": s.Entries, "watches": s.Watches}, nil
}

func (m memoryWorld) close() error { return nil }

// lose cuts members off, and blocks until the service has ended their sessions, having heard nothing from
// them for their timeout.
func lose(ctx context.Context, w world, ttl time.Duration, lost []*member) error {
	before, err := w.figures()
	if err != nil {
		return err
	}
	for _, m := range lost {
		m.doomed.Store(true)
		m.Cut()
	}
	for end := time.Now().Add(ttl + patience); ; {
		now, err := w.figures()
		if err != nil {
			return err
		}
		ended := before["sessions"] - now["sessions"]
		switch {
		case ended == len(lost):
			return nil
		case time.Now().After(end):
			return fmt.Errorf("of %d sessions the service has ended %d: %d were cut off", before["sessions"], ended, len(lost))
		}
		if err := program.Sleep(ctx, tick); err != nil {
			return err
		}
	}
}
