package proxytest

import "sync"

// gate lets goroutines pass or has them wait. The zero gate is open.
type gate struct {
	mu     sync.Mutex
	barred chan struct{} // nil while open, closed to let waiters pass
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.barred == nil {
		g.barred = make(chan struct{})
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.barred != nil {
		close(g.barred)
		g.barred = nil
	}
}

// barrier returns a channel that is closed when the gate opens, nil if it is open.
func (g *gate) barrier() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.barred
}
