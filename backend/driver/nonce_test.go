package driver_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend/driver"
)

func TestNoncesDiffer(t *testing.T) {
	seen := map[uint64]bool{0: true}
	for range 1000 {
		n := driver.NewNonce()
		require.False(t, seen[n], "%x comes again, or is zero", n)
		seen[n] = true
	}
}

func TestIsHex(t *testing.T) {
	for s, want := range map[string]bool{
		"0123456789abcdef": true, "0": true, "": true,
		"A": false, "g": false, "0g0": false, "0 0": false, "-1": false, "0é": false, "0\x000": false,
	} {
		assert.Equal(t, want, driver.IsHex(s), s)
	}
}
