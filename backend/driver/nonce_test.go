package driver_test

import (
	"testing"

	"github.com/elector-go/elector/backend/driver"
)

func TestNoncesDiffer(t *testing.T) {
	seen := map[uint64]bool{0: true}
	for range 1000 {
		n := driver.NewNonce()
		if seen[n] {
			t.Fatalf("%x comes again, or is zero", n)
		}
		seen[n] = true
	}
}

func TestIsHex(t *testing.T) {
	for s, want := range map[string]bool{
		"0123456789abcdef": true, "0": true, "": true,
		"A": false, "g": false, "0g0": false, "0 0": false, "-1": false, "0é": false, "0\x000": false,
	} {
		if got := driver.IsHex(s); got != want {
			t.Errorf("%q: %v", s, got)
		}
	}
}
