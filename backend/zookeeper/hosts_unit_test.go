package zookeeper

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
)

// What went wrong at several servers is said once.
func TestFailuresOfHosts(t *testing.T) {
	h := newHosts([]string{"a:1", "b:1", "c:1"}, false)
	require.NoError(t, h.failure())
	h.note("b:1", errors.New("away"))
	h.note("a:1", errors.New("away"))
	h.note("c:1", refusal{backend.ErrDenied})
	require.EqualError(t, h.failure(), "a:1, b:1: away\nc:1: access denied")
}

// That no session was granted is said only if none was.
func TestSearchAfterASession(t *testing.T) {
	for _, granted := range []bool{false, true} {
		h := newHosts([]string{"a:1", "b:1", "c:1"}, false)
		if granted {
			h.Connected()
		}
		for range 4 {
			h.Next()
		}
		<-h.exhausted
		assert.Equal(t, granted, h.failure() == nil, "%v", h.failure())
	}
}
