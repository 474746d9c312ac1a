package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/elector-go/elector/backend"
)

// A line is the candidates of one election in the order of their arrival, as the service has reported it to
// each of them: by the revision of the candidate's entry.
type line struct {
	mu   sync.Mutex
	revs map[string]uint64 // by candidate
}

func newLine() *line { return &line{revs: make(map[string]uint64)} }

func (l *line) enter(id string, rev uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.revs[id] = rev
}

func (l *line) leave(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.revs, id)
}

func (l *line) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.revs)
}

// order returns all candidates in the order of their arrival.
func (l *line) order() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.SortedFunc(maps.Keys(l.revs), func(a, b string) int { return cmp.Compare(l.revs[a], l.revs[b]) })
}

// first returns the candidate that came first, and its revision.
func (l *line) first() (id string, rev uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for other, r := range l.revs {
		if id == "" || r < rev {
			id, rev = other, r
		}
	}
	return id, rev
}

// elected checks that the elected candidate is the one that came first.
func (l *line) elected(id string, token uint64) error {
	if first, rev := l.first(); id != first || token != rev {
		return fmt.Errorf("candidate %s was elected with token %d, and candidate %s is next in line, with %d", id, token, first, rev)
	}
	return nil
}

// listed checks that the service lists each candidate once, in the order of arrival.
func (l *line) listed(got []string) error {
	want := l.order()
	if slices.Equal(got, want) {
		return nil
	}
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	return fmt.Errorf("the service lists %d candidates, and %d are in line; from place %d on it has %q, and not %q",
		len(got), len(want), i+1, got[i:min(len(got), i+3)], want[i:min(len(want), i+3)])
}

// tap returns the backend of one candidate. It adds the candidate to the line when its entry is made.
func (l *line) tap(b backend.Backend, id string) backend.Backend {
	return backend.Intercept(b, func(ctx context.Context, c *backend.Call, next func(context.Context) error) error {
		err := next(ctx)
		for i, op := range c.Ops {
			if err == nil && op.Kind == backend.OpEnqueue {
				l.enter(id, c.Entries[i].Rev)
			}
		}
		return err
	})
}
