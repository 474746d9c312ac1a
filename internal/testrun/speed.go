package main

import (
	"fmt"
	"runtime"
	"sync"
	"time"
)

const (
	sample      = 20_000_000            // steps of a computation
	usualSample = 50 * time.Millisecond // that they take on a processor that does nothing else
)

// slowness is how many times longer than usual the processors take to compute now, and at
// least 1. It blocks for as long as the sample takes.
func slowness() float64 {
	began := time.Now()
	var all sync.WaitGroup
	for n := range runtime.NumCPU() {
		all.Go(func() {
			x := uint64(n + 1)
			for range sample {
				x ^= x << 13
				x ^= x >> 7
				x ^= x << 17
			}
			runtime.KeepAlive(x) // lest the compiler leave all of it out
		})
	}
	all.Wait()
	return max(1, float64(time.Since(began))/float64(usualSample))
}

// Each stage runs some tests side by side, and on a slow machine fewer of them: what waits for a
// processor for too long loses its session.
const (
	leastParallel = 4
	leastPrograms = 2
)

// fit are the arguments for go test that say how much of the stage runs side by side.
func (s stage) fit() (args []string) {
	fewer := func(n, least int) int { return max(min(n, least), int(float64(n)/max(s.slowness, 1))) }
	if s.parallel > 0 {
		args = append(args, fmt.Sprintf("-parallel=%d", fewer(s.parallel, leastParallel)))
	}
	if s.programs > 0 {
		args = append(args, fmt.Sprintf("-p=%d", fewer(s.programs, leastPrograms)))
	}
	return args
}

// said tells of a slow machine.
func (s stage) said() string {
	if s.slowness < 1.5 {
		return ""
	}
	return fmt.Sprintf(", on a machine that is %.1f times slower than usual", s.slowness)
}
