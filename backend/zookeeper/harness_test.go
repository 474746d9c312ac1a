package zookeeper_test

import (
	"fmt"
	"sync/atomic"
	"time"
)

var roots atomic.Uint64

// newRoot is a key that nobody used before.
func newRoot() string { return fmt.Sprintf("/test/r%d-%d", time.Now().UnixNano(), roots.Add(1)) }
