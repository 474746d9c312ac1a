package electorprom_test

import "time"

// waitFor bounds what comes soon, on however busy a machine.
const (
	waitFor = 30 * time.Second
	tick    = 10 * time.Millisecond
)
