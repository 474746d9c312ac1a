//go:build !linux

package servertest

// MemoryDir returns "": there is no folder here whose files are sure to be in memory.
func MemoryDir() string { return "" }
