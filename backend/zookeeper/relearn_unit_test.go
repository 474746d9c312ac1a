package zookeeper

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"

	"github.com/elector-go/elector/backend"
)

// A server that refuses what it has just said is asked again with pauses, for a session timeout.
func TestRefusalsOfWhatWasLearned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := New(Config{Servers: []string{"127.0.0.1:1"}})
		assert.NoError(t, err)
		s := newSession(&b.cfg, &b.ballot, time.Minute)
		s.Grant("", time.Now(), 10*time.Second, -time.Hour) // the window is no matter here
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
