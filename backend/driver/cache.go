package driver

import "sync"

// A Cache holds, by key, what a session has learned and can ask again. It is bounded, so that a session
// does not grow with its elections: when it is full, it forgets everything. A commit may trust none of it,
// except what the service checks there. Its zero value is ready to use. It is safe for concurrent use.
type Cache[V any] struct {
	mu   sync.Mutex
	held map[string]V
}

// CacheLimit is the maximum number of keys in a Cache.
const CacheLimit = 4096

// GoneLeast is how many entries that are gone a session remembers, at least: a backend adds some for each entry
// that waits, those before it, and Limits its Cache to that. Up to CacheLimit it would grow with the session's
// terms.
const GoneLeast = 64

// Get returns what is known of a key, and whether anything is.
func (c *Cache[V]) Get(key string) (v V, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, known = c.held[key]
	return v, known
}

// Has reports whether anything is known of a key.
func (c *Cache[V]) Has(key string) bool {
	_, known := c.Get(key)
	return known
}

// Put notes what is known of a key from now on.
func (c *Cache[V]) Put(key string, v V) {
	c.Change(key, func(V, bool) (V, bool) { return v, true })
}

// Change replaces what is known of a key by what change returns, as one step; if change returns false,
// nothing changes. change must not call the Cache.
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

// Take is Get and Forget in one step.
func (c *Cache[V]) Take(key string) (v V, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, known = c.held[key]
	delete(c.held, key)
	return v, known
}

// Forget removes what may be outdated.
func (c *Cache[V]) Forget(key string) { c.Take(key) }

// Limit forgets everything if there are most keys or more, where fewer than CacheLimit are useful.
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

// Len returns the number of keys.
func (c *Cache[V]) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.held)
}
