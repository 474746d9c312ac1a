package driver_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/elector-go/elector/backend/driver"
)

func TestCache(t *testing.T) {
	var c driver.Cache[int]
	expect := func(key string, want int, known bool) {
		t.Helper()
		if v, ok := c.Get(key); v != want || ok != known || c.Has(key) != known {
			t.Errorf("of %s %d is known (%v), want %d (%v)", key, v, ok, want, known)
		}
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
	if v, known := c.Take("a"); v != 2 || !known {
		t.Errorf("took %d, %v", v, known)
	}
	expect("a", 0, false)
}

// A session that meets new keys for ever does not grow, and one that meets the same ones forgets
// none of them.
func TestCacheIsBounded(t *testing.T) {
	var c driver.Cache[int]
	most := 0
	for i := range 10 * driver.CacheLimit {
		c.Put(fmt.Sprint(i), i)
		most = max(most, c.Len())
		if !c.Has(fmt.Sprint(i)) {
			t.Fatal("what was noted last is forgotten")
		}
	}
	if most != driver.CacheLimit {
		t.Errorf("up to %d keys were held, want %d", most, driver.CacheLimit)
	}
	full := c.Len()
	for range 3 {
		c.Put(fmt.Sprint(10*driver.CacheLimit-1), 0)
	}
	c.Limit(full + 1)
	if c.Len() != full {
		t.Errorf("%d keys are left of %d, and none was new", c.Len(), full)
	}
	c.Limit(full)
	if c.Len() != 0 {
		t.Errorf("%d keys are left beyond the limit", c.Len())
	}
}

// No change of a key is lost among others.
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
	if v, _ := c.Get("n"); v != 8000 {
		t.Errorf("%d changes were made, want 8000", v)
	}
}
