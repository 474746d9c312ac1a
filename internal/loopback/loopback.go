// Package loopback hands out TCP ports of 127.0.0.1 to servers that are child processes, and to listeners
// of this process. No two processes that use it get the same port.
package loopback

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports come from below 32768, where Linux's ephemeral range begins. Any outgoing connection could take a
// port in that range while its server is down, and a client that keeps dialling a dead loopback port in
// that range will sooner or later connect to itself.
const (
	firstPort = 12000
	lastPort  = 32000
	blockSize = 50
)

// ports hands out loopback ports to this process.
var ports portAllocator

// portAllocator takes whole blocks of ports. A listener on a block's first port keeps other test binaries
// away from the block; the kernel closes it when the process ends, so a killed binary leaves nothing
// behind.
type portAllocator struct {
	mu    sync.Mutex
	locks []net.Listener // one per block, open for the life of the process
	free  []int          // in the order in which they are handed out
}

// Ports reserves n distinct loopback TCP ports on which nothing listens. No other caller of this package,
// in this process or another, gets them until Release or the end of the process.
//
// They are for child processes. A child that this process is starting holds a copy of every open socket
// until it executes its program, and so keeps a port in use for an instant after Ports has tried it. That
// is over before the next child starts, but this process itself may find the port in use: it must use
// Listen.
func Ports(n int) ([]int, error) {
	got := make([]int, 0, n)
	for len(got) < n {
		l, port, err := Listen()
		if err != nil {
			Release(got...)
			return nil, err
		}
		got = append(got, port)
		if err := l.Close(); err != nil {
			Release(got...)
			return nil, fmt.Errorf("loopback: %w", err)
		}
	}
	return got, nil
}

// Release returns ports obtained from Ports or Listen. The caller has stopped all listeners on them. They
// are the last to be handed out again, which gives clients of their last user the most time to notice that
// it is gone.
func Release(released ...int) {
	ports.mu.Lock()
	defer ports.mu.Unlock()
	ports.free = append(ports.free, released...)
}

// listen listens on a new port. The caller holds mu.
func (a *portAllocator) listen() (net.Listener, int, error) {
	for {
		for len(a.free) > 0 {
			port := a.free[0]
			a.free = a.free[1:]
			if l, err := net.Listen("tcp4", address(port)); err == nil {
				return l, port, nil
			}
		}
		if err := a.takeBlock(); err != nil {
			return nil, 0, err
		}
	}
}

// takeBlock reserves one more block of ports. The caller holds mu.
func (a *portAllocator) takeBlock() error {
	const blocks = (lastPort - firstPort) / blockSize
	start := rand.IntN(blocks)
	for i := range blocks {
		base := firstPort + (start+i)%blocks*blockSize
		l, err := net.Listen("tcp4", address(base))
		if err != nil {
			continue // another process has this block
		}
		a.locks = append(a.locks, l)
		for p := base + 1; p < base+blockSize; p++ {
			a.free = append(a.free, p)
		}
		return nil
	}
	return errors.New("loopback: no free block of loopback ports")
}

func address(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// Listen listens on a reserved port. It also returns the port, so that the caller can release it after
// closing the listener.
func Listen() (net.Listener, int, error) {
	ports.mu.Lock()
	defer ports.mu.Unlock()
	return ports.listen()
}
