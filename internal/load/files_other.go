//go:build !unix

package main

// enoughFiles cannot tell here; connecting will.
func enoughFiles(int) error { return nil }
