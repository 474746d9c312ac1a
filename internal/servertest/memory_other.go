//go:build !linux

package servertest

// memory returns "": there is no folder here whose files are sure to be in memory.
func memory() string { return "" }
