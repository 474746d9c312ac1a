package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestFewerSideBySideOnASlowMachine(t *testing.T) {
	s := stage{parallel: 18, programs: 4}
	for slow, want := range map[float64][]string{
		0:   {"-parallel=18", "-p=4"}, // not measured
		1:   {"-parallel=18", "-p=4"},
		1.9: {"-parallel=9", "-p=2"},
		3:   {"-parallel=6", "-p=2"},
		50:  {"-parallel=4", "-p=2"},
	} {
		s.slowness = slow
		assert.Equal(t, want, s.fit(), slow)
	}
	one := stage{parallel: 1, slowness: 3}
	assert.Equal(t, []string{"-parallel=1"}, one.fit(), "what comes alone stays alone, and packages are go test's matter")
	assert.Empty(t, stage{slowness: 3}.fit())
	assert.GreaterOrEqual(t, slowness(), 1.0)
}
