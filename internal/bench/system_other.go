//go:build !unix

package main

import "time"

// cpuTime cannot tell here.
func cpuTime() time.Duration { return 0 }
