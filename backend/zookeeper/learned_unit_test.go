package zookeeper

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// Entries that are gone are remembered only for as long as waiting candidates may ask for them.
func TestMemoryOfWhatIsGone(t *testing.T) {
	var m learned
	for i := range 10_000 {
		m.bury(fmt.Sprintf("/a/e-%d", i), uint64(i+1))
	}
	assert.LessOrEqual(t, m.gone.Len(), driver.GoneLeast)
	const waiting = 100
	for i := range waiting {
		m.before.Put(fmt.Sprintf("/b%d/e-1", i), ahead{})
	}
	m.gone.Limit(0)
	for i := range waiting {
		m.bury(fmt.Sprintf("/b%d/e-0", i), 1)
	}
	for i := range waiting {
		assert.True(t, m.gone.Has(fmt.Sprintf("/b%d/e-0", i)), "the one before %d", i)
	}
}

// An entry proves that its history includes the end of all that have ended, if it was made after that
// end, and on a link with that history.
func TestLatestOwnEntry(t *testing.T) {
	var m learned
	latest := func(links uint64) string {
		key, _ := m.latest(links)
		return key
	}
	end := func(key string, rev, newest uint64) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.ended(key, rev, newest)
	}
	m.addOwn(backend.Entry{Key: "/a", Rev: 5, Version: 1}, 1)
	end("/b", 2, 3)
	assert.Equal(t, "/a", latest(1))
	end("/b", 4, 7)
	assert.Empty(t, latest(1), "it was made before")
	m.addOwn(backend.Entry{Key: "/c", Rev: 9, Version: 1}, 2)
	assert.Empty(t, latest(1), "it may be in another history")
	assert.Equal(t, "/c", latest(2))
	m.addOwn(backend.Entry{Key: "/c", Rev: 11, Version: 1}, 2)
	assert.True(t, m.past.Has("/c", 9, m.past.Mark()), "nothing could have been made over it")
	assert.Equal(t, "/c", latest(2))
}

// A server that refuses what it has just reported is asked again with pauses, for a session timeout.
func TestRefusalsOfWhatWasLearned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := New(Config{Servers: []string{"127.0.0.1:1"}})
		assert.NoError(t, err)
		s := newSession(&b.cfg, &b.ballot, time.Minute)
		s.Grant("", time.Now(), 10*time.Second, -time.Hour) // the window does not matter here
		c := &commit{s: s}
		f := &flight{
			m:       &multi{parts: []part{{&zk.CheckVersionRequest{Path: "/a", Version: 3}, ref{role: roleProof, op: -1, key: "/a/b"}}}},
			results: []zk.MultiResponse{{Error: zk.ErrBadVersion}}, err: zk.ErrBadVersion,
		}
		began, n := time.Now(), 0
		for ; err == nil; n++ {
			err = c.relearn(context.Background(), f)
		}
		assert.ErrorIs(t, err, backend.ErrUnavailable)
		assert.ErrorIs(t, err, zk.ErrBadVersion)
		assert.Less(t, n, 100)
		assert.Less(t, time.Since(began), 2*s.TTL())
	})
}
