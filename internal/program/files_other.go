//go:build !unix

package program

// EnoughFiles cannot tell here; connecting will.
func EnoughFiles(int) error { return nil }
