package driver

import "sync"

// A Cache holds what a session has learned by key and can ask again: as it is bounded, so that a
// session does not grow with its elections, all is forgotten where there is too much. None of it
// may be trusted in a commit but what the service checks there. Its zero value is ready, and it is
// safe for concurrent use.
type Cache[V any] struct {
	mu   sync.Mutex
	held map[string]V
}

// CacheLimit is how many keys a Cache holds at most.
const CacheLimit = 4096

// Get returns what is known of a key, if anything is.
func (c *Cache[V]) Get(key string) (v V, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, known = c.held[key]
	return v, known
}

// Has tells whether anything is known of a key.
func (c *Cache[V]) Has(key string) bool {
	_, known := c.Get(key)
	return known
}

// Put notes what is known of a key from now on.
func (c *Cache[V]) Put(key string, v V) {
	c.Change(key, func(V, bool) (V, bool) { return v, true })
}

// Change puts in the place of what is known what change makes of it, with nobody between; if it
// returns false all stays as it is. It must not call the Cache.
func (c *Cache[V]) Change(key string, change func(v V, known bool) (V, bool)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, known := c.held[key]
	v, changed := change(v, known)
	if !changed {
		return
	}
	if !known {
		c.limit(CacheLimit)
	}
	if c.held == nil {
		c.held = make(map[string]V)
	}
	c.held[key] = v
}

// Take is Get, and Forget.
func (c *Cache[V]) Take(key string) (v V, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, known = c.held[key]
	delete(c.held, key)
	return v, known
}

// Forget is for what may be outdated.
func (c *Cache[V]) Forget(key string) { c.Take(key) }

// Limit forgets all if there are so many keys, where less than CacheLimit are of use.
func (c *Cache[V]) Limit(most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit(most)
}

func (c *Cache[V]) limit(most int) {
	if len(c.held) >= most {
		clear(c.held)
	}
}

// Len is how many keys there are.
func (c *Cache[V]) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.held)
}
