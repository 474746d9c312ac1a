package driver

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/elector-go/elector/backend"
)

// Strays tells the entries of a session that its commits have made from others that it holds. When an
// operator restores the service from a backup, an entry may be back that the session has deleted, or that a caller
// was told to be gone. The session lives on, so the candidate would wait behind itself, and all others, too:
// see Life.RemoveStray. (What the user makes in the same session, under a key of a CreateEphemeral of the
// session, is taken for a stray.)
//
// Its zero value is ready.
type Strays struct {
	mu      sync.Mutex
	own     map[string]uint64      // by key, the revision that a commit has made, while nobody was told that it is gone
	commits map[chan struct{}]bool // that are not over; closed when they are
	created Cache[struct{}]        // keys of CreateEphemerals
}

// Begin notes a commit that may make entries. Call over when it has told of them with Made, or is given up.
func (m *Strays) Begin(ops []backend.Op) (over func()) {
	if !slices.ContainsFunc(ops, backend.Op.Ephemeral) {
		return func() {}
	}
	done := make(chan struct{})
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.own == nil {
		m.own, m.commits = make(map[string]uint64), make(map[chan struct{}]bool)
	}
	m.commits[done] = true
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.commits, done)
		close(done)
	}
}

// Made notes what a commit has done, as it tells it: an entry for each op.
func (m *Strays) Made(ops []backend.Op, made []backend.Entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, op := range ops {
		switch op.Kind {
		case backend.OpCreateEphemeral:
			m.created.Put(op.Key, struct{}{})
			m.own[made[i].Key] = made[i].Rev
		case backend.OpEnqueue:
			m.own[made[i].Key] = made[i].Rev
		case backend.OpDelete:
			m.gone(op.Key, op.Rev)
		}
	}
}

// Gone notes that a caller is about to be told that an incarnation is gone; rev 0 is any. It returns whether
// that is news: the session has not deleted it, nor was a caller told before.
func (m *Strays) Gone(key string, rev uint64) (news bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.gone(key, rev)
}

func (m *Strays) gone(key string, rev uint64) (news bool) {
	own, news := m.own[key]
	if news = news && (rev == 0 || own == rev); news {
		delete(m.own, key)
	}
	return news
}

// Is tells whether an entry that the session holds is a stray, unless a commit is about to tell of it. A Rev of 0
// is any. Each service names what is enqueued in its own way, so whoever asks tells whether e was.
func (m *Strays) Is(e backend.Entry, enqueued bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	rev, own := m.own[e.Key]
	own = own && (rev == e.Rev || e.Rev == 0)
	return !own && (enqueued || m.created.Has(e.Key))
}

// Claim waits until all commits that have begun are over, and then takes a stray for its own, so that it is
// removed once. It returns false if a commit has told of it, or of a younger one under its key: then what was
// seen is no more, or that one is yet to be told to be gone.
func (m *Strays) Claim(ctx context.Context, e backend.Entry) bool {
	m.mu.Lock()
	begun := slices.Collect(maps.Keys(m.commits))
	m.mu.Unlock()
	for _, done := range begun {
		select {
		case <-done:
		case <-ctx.Done():
			return false
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if rev, own := m.own[e.Key]; own && rev >= e.Rev {
		return false
	}
	if m.own == nil {
		m.own = make(map[string]uint64)
	}
	m.own[e.Key] = e.Rev
	return true
}

// RemoveStray has an entry that was seen removed in the background, unless a commit that is not over tells of it.
// It does not block.
func (l *Life) RemoveStray(e backend.Entry) {
	l.Run(func() {
		if l.Strays.Claim(l.Ctx, e) {
			l.o.Logger.Log(context.Background(), slog.LevelWarn, l.o.Name+": removing an entry of the session that no commit has told of: the service was restored",
				"session", l.id, "key", e.Key)
			l.Reap(e)
		}
	})
}
