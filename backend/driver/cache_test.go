package driver_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend/driver"
)

func TestCache(t *testing.T) {
	var c driver.Cache[int]
	expect := func(key string, want int, known bool) {
		t.Helper()
		v, ok := c.Get(key)
		assert.Equal(t, want, v)
		assert.Equal(t, []bool{known, known}, []bool{ok, c.Has(key)})
	}
	c.Forget("a")
	expect("a", 0, false)
	c.Put("a", 1)
	expect("a", 1, true)
	c.Change("a", func(v int, known bool) (int, bool) { return 2, v == 1 && known })
	expect("a", 2, true)
	c.Change("a", func(int, bool) (int, bool) { return 3, false })
	expect("a", 2, true)
	c.Change("b", func(v int, known bool) (int, bool) { return 3, known })
	expect("b", 0, false)
	v, known := c.Take("a")
	assert.True(t, v == 2 && known, "took %d, %v", v, known)
	expect("a", 0, false)
}

// A session that meets ever new keys does not grow, and one that meets the same keys forgets none of them.
func TestCacheIsBounded(t *testing.T) {
	var c driver.Cache[int]
	most := 0
	for i := range 10 * driver.CacheLimit {
		c.Put(fmt.Sprint(i), i)
		most = max(most, c.Len())
		require.True(t, c.Has(fmt.Sprint(i)), "what was noted last is forgotten")
	}
	assert.Equal(t, driver.CacheLimit, most, "keys that were held at once")
	full := c.Len()
	for range 3 {
		c.Put(fmt.Sprint(10*driver.CacheLimit-1), 0)
	}
	c.Limit(full + 1)
	assert.Equal(t, full, c.Len(), "none was new")
	c.Limit(full)
	assert.Zero(t, c.Len(), "beyond the limit")
}

// No change of a key is lost among concurrent ones.
func TestCacheChangesAreOneAfterTheOther(t *testing.T) {
	var c driver.Cache[int]
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				c.Change("n", func(v int, _ bool) (int, bool) { return v + 1, true })
			}
		})
	}
	all.Wait()
	v, _ := c.Get("n")
	assert.Equal(t, 8000, v, "changes")
}
