//go:build steppedclock

package main

import "time"

// stepClock steps the wall clock of this process. See clock.go for where StepWall is from.
func stepClock(d time.Duration) { time.StepWall(d) }
