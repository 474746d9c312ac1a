package servertest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports come from below 32768, where Linux's ephemeral range begins. A port
// from inside that range could be taken by any outgoing connection while its
// server is down, and a client that keeps dialling a dead loopback port in it
// will sooner or later connect to itself.
const (
	firstPort = 12000
	lastPort  = 32000
	blockSize = 50
)

// ports hands out loopback ports to this process.
var ports portAllocator

// portAllocator takes whole blocks of ports. Holding a listener on a block's
// first port keeps other test binaries away from the block; the kernel closes
// it when the process ends, so a killed binary leaves nothing behind.
type portAllocator struct {
	mu    sync.Mutex
	locks []net.Listener // one per block, open for the life of the process
	fresh []int          // never handed out
	freed []int          // handed out and given back, oldest first
}

// FreePorts reserves n distinct loopback TCP ports on which nothing listens.
// No other caller of this package, in this process or another, gets them until
// ReleasePorts or the end of the process.
func FreePorts(n int) ([]int, error) {
	ports.mu.Lock()
	defer ports.mu.Unlock()
	got := make([]int, 0, n)
	for len(got) < n {
		p, err := ports.next()
		if err != nil {
			ports.freed = append(ports.freed, got...)
			return nil, err
		}
		got = append(got, p)
	}
	return got, nil
}

// ReleasePorts gives back ports obtained from FreePorts. The caller has
// stopped whatever listened on them.
func ReleasePorts(released ...int) {
	ports.mu.Lock()
	defer ports.mu.Unlock()
	ports.freed = append(ports.freed, released...)
}

// next returns a port that can be listened on. Caller holds mu.
func (a *portAllocator) next() (int, error) {
	for {
		if len(a.fresh) == 0 {
			// Reusing the oldest freed port leaves stragglers of its last
			// user the most time to notice that it is gone.
			for len(a.freed) > 0 {
				p := a.freed[0]
				a.freed = a.freed[1:]
				if usable(p) {
					return p, nil
				}
			}
			if err := a.takeBlock(); err != nil {
				return 0, err
			}
		}
		p := a.fresh[0]
		a.fresh = a.fresh[1:]
		if usable(p) {
			return p, nil
		}
	}
}

// takeBlock reserves one more block of ports. Caller holds mu.
func (a *portAllocator) takeBlock() error {
	const blocks = (lastPort - firstPort) / blockSize
	start := rand.IntN(blocks)
	for i := range blocks {
		base := firstPort + (start+i)%blocks*blockSize
		l, err := net.Listen("tcp4", loopback(base))
		if err != nil {
			continue // another process has this block
		}
		a.locks = append(a.locks, l)
		for p := base + 1; p < base+blockSize; p++ {
			a.fresh = append(a.fresh, p)
		}
		return nil
	}
	return errors.New("servertest: no free block of loopback ports")
}

// usable reports whether the port can be listened on now.
func usable(port int) bool {
	l, err := net.Listen("tcp4", loopback(port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

func loopback(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// listenLoopback listens on a reserved port and returns it too, so that the
// caller can release it after closing the listener.
func listenLoopback() (net.Listener, int, error) {
	got, err := FreePorts(1)
	if err != nil {
		return nil, 0, err
	}
	l, err := net.Listen("tcp4", loopback(got[0]))
	if err != nil {
		ReleasePorts(got...)
		return nil, 0, fmt.Errorf("servertest: listen: %w", err)
	}
	return l, got[0], nil
}
