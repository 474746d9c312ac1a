//go:build steppedclock

package main

import "time"

// stepClock steps the wall clock of this process. StepWall comes from clock.go.
func stepClock(d time.Duration) { time.StepWall(d) }
