package servertest

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/elector-go/elector/internal/wait"
)

// group is what the members of a cluster know of each other. A member that has lost its data must not come
// back as if it had not: it would not know what it had promised the others.
type group struct {
	members []*Server // complete before the first one starts

	mu sync.Mutex // guards the members' data folders and replaced
}

// enter makes the data folder of a member that is about to start, if there is none. While no member has
// data, all of them found a cluster. Later, a member without data has lost it: then enter waits until a
// quorum of the others serves and makes them expect a new member in its place.
func (g *group) enter(s *Server) error {
	lost, err := g.found(s)
	if err != nil || !lost {
		return err
	}
	if err := g.replace(s); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s.replaced = true
	return os.Mkdir(s.dataDir, 0o700)
}

// found makes all members' folders if none exists. Otherwise it reports whether the folder of s is missing.
func (g *group) found(s *Server) (lost bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if slices.ContainsFunc(g.members, (*Server).hasData) {
		return !s.hasData(), nil
	}
	for _, m := range g.members {
		m.replaced = false
		err = errors.Join(err, os.Mkdir(m.dataDir, 0o700))
	}
	return false, err
}

func (s *Server) hasData() bool {
	_, err := os.Stat(s.dataDir)
	return err == nil
}

// replace asks the others, one after the other, until one of them has done it.
func (g *group) replace(s *Server) error {
	deadline := time.Now().Add(wait.Patience)
	for {
		err := fmt.Errorf("no other member is up: %w", ErrNotServing)
		for _, m := range g.members {
			if m == s || !m.Running() || m.Paused() {
				continue
			}
			if err = m.forget(s); err == nil {
				return nil
			}
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("has lost its data, and could not be replaced in %v: %w", wait.Patience, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
