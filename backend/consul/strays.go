package consul

import (
	"context"
	"sync"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// After an operator has restored the service from a backup, an entry may be back that this session has
// deleted, or that it has told to be gone. Its session lives: its candidate would wait behind itself, and all
// others, too. So each entry of the session that is seen is compared with those that commits have made, and a
// stray is removed. (What the user makes in the same session, under a key of a CreateEphemeral of the session,
// is removed, too.)
type strays struct {
	mu      sync.Mutex
	own     map[string]uint64 // revisions by key: what commits have made, and nobody was told to be gone
	commits map[*commit]chan struct{}
	created driver.Cache[struct{}] // keys under which commits have made what was not enqueued
}

// begin notes a commit that may make entries. The caller calls end when it is over.
func (m *strays) begin(c *commit) (end func()) {
	over := make(chan struct{})
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.commits == nil {
		m.own, m.commits = make(map[string]uint64), make(map[*commit]chan struct{})
	}
	m.commits[c] = over
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.commits, c)
		close(over)
	}
}

// made notes what a commit has made.
func (m *strays) made(entries []backend.Entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range entries {
		m.own[e.Key] = e.Rev
		if !isEnqueued(e.Key) {
			m.created.Put(e.Key, struct{}{})
		}
	}
}

// gone notes that a caller is told that an entry is gone.
func (m *strays) gone(key string, rev uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.own[key] == rev {
		delete(m.own, key)
	}
}

func (m *strays) isOwn(e backend.Entry) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	rev, known := m.own[e.Key]
	return known && rev == e.Rev
}

// settled waits until all commits that have begun are over.
func (m *strays) settled(ctx context.Context) error {
	m.mu.Lock()
	var all []chan struct{}
	for _, over := range m.commits {
		all = append(all, over)
	}
	m.mu.Unlock()
	for _, over := range all {
		select {
		case <-over:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// sight has strays among entries that were seen removed in the background. It does not block.
func (s *session) sight(entries ...backend.Entry) {
	for _, e := range entries {
		if e.Session == s.ID() && e.Exists() && !s.strays.isOwn(e) && (isEnqueued(e.Key) || s.strays.created.Has(e.Key)) {
			s.Run(func() { s.dropStray(e) })
		}
	}
}

// dropStray has a stray removed, unless it turns out to be what a commit has just made.
func (s *session) dropStray(e backend.Entry) {
	if s.strays.settled(s.Ctx) != nil || s.strays.isOwn(e) {
		return
	}
	s.b.cfg.Logger.Warn("consul: removing an entry of the session that no commit has told of: the service was restored", "session", s.ID(), "key", e.Key)
	s.strays.made([]backend.Entry{e}) // until it is gone
	s.learned.gone.Forget(e.Key)
	s.Reap(e)
}

// tellGone is called before a caller is told that an entry of this session is gone. If the service was restored,
// older ones may be back anywhere before its next one: a list shows them.
func (s *session) tellGone(e backend.Entry) {
	s.strays.gone(e.Key, e.Rev)
	s.learned.few.Put(backend.Parent(e.Key), true)
}
