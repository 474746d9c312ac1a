//go:build !steppedclock

package main

import "time"

// stepClock does nothing: this program was not built for it. The caller notices that, as it checks the
// clock.
func stepClock(time.Duration) {}
