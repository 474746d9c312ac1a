package driver

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestPast(t *testing.T) {
	var p Past
	assert.False(t, p.Has("/a", 1, p.Mark()))
	assert.Empty(t, p.Places())
	before := p.Mark()
	p.Add("/a", 1, "/a")
	first := p.Mark()
	p.Add("/a", 1, "/a")
	p.Add("/b/e-1", 2, "/b/")
	has := func(key string, rev uint64) bool { return p.Has(key, rev, p.Mark()) }
	assert.True(t, has("/a", 1))
	assert.False(t, has("/a", 2))
	assert.False(t, has("/b", 1))
	assert.False(t, p.Has("/a", 1, before), "a read that was sent before may have found it")
	assert.True(t, p.Has("/a", 1, first))
	assert.False(t, p.Has("/b/e-1", 2, first))
	assert.ElementsMatch(t, []string{"/a", "/b/"}, p.Places())
	for i := range PastMost - 1 {
		p.Add(fmt.Sprintf("/c/e-%d", i), 3, "/c/")
	}
	assert.False(t, has("/a", 1), "only the latest are remembered")
	assert.ElementsMatch(t, []string{"/b/", "/c/"}, p.Places())
	assert.True(t, has("/b/e-1", 2))
	assert.True(t, has("/c/e-0", 3))
}
