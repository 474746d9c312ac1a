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

// pass blocks while the gate is shut. It returns false if done came first.
func (g *gate) pass(done <-chan struct{}) bool {
	for {
		g.mu.Lock()
		barred := g.barred
		g.mu.Unlock()
		if barred == nil {
			return true
		}
		select {
		case <-barred:
			// It may have been shut again.
		case <-done:
			return false
		}
	}
}

func (g *gate) isShut() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.barred != nil
}
