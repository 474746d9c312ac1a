package history

import (
	"crypto/rand"
	"sync/atomic"
)

// A Clock gives the instants of a history. Make it with Logical or Machine.
type Clock struct {
	// Name and Origin identify the clock: histories can be merged if both are equal.
	Name   ClockName
	Origin string
	now    func() int64
}

// A ClockName says what the instants of a history count.
type ClockName string

const (
	// LogicalClock counts readings of itself, within one process.
	LogicalClock ClockName = "logical"
	// MachineClock counts nanoseconds since the machine started.
	MachineClock ClockName = "machine"
)

// Now reads the clock. Instants of a logical clock are all different.
func (c Clock) Now() int64 { return c.now() }

// Logical returns a counter, for candidates in one process. It also works where time is fake, and between
// instants that no clock can distinguish.
func Logical() Clock {
	var ticks atomic.Int64
	return Clock{LogicalClock, rand.Text(), func() int64 { return ticks.Add(1) }}
}
