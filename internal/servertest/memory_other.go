//go:build !linux

package servertest

// MemoryDir returns "": no folder is known to keep its files in memory here.
func MemoryDir() string { return "" }
