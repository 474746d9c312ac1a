package driver

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestPast(t *testing.T) {
	var p Past
	assert.False(t, p.Has("/a", 1))
	assert.Empty(t, p.Places())
	p.Add("/a", 1, "/a")
	p.Add("/a", 1, "/a")
	p.Add("/b/e-1", 2, "/b/")
	assert.True(t, p.Has("/a", 1))
	assert.False(t, p.Has("/a", 2))
	assert.False(t, p.Has("/b", 1))
	assert.ElementsMatch(t, []string{"/a", "/b/"}, p.Places())
	for i := range PastMost - 1 {
		p.Add(fmt.Sprintf("/c/e-%d", i), 3, "/c/")
	}
	assert.False(t, p.Has("/a", 1), "only the latest are remembered")
	assert.ElementsMatch(t, []string{"/b/", "/c/"}, p.Places())
	assert.True(t, p.Has("/b/e-1", 2))
	assert.True(t, p.Has("/c/e-0", 3))
}
