package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The costliest rules are shown, and all are in the file.
func TestTimesAreShort(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(folder, programs), 0o777))
	events, err := os.Create(filepath.Join(folder, eventsFile))
	require.NoError(t, err)
	encoder := json.NewEncoder(events)
	const rules = 100
	for i := range rules {
		test := fmt.Sprintf("TestElectionOnServers/etcd/fair/rules/a/%03d", i)
		require.NoError(t, encoder.Encode(event{Action: "pass", Package: "conformance", Test: test, Elapsed: float64(i)}))
	}
	require.NoError(t, events.Close())

	var screen strings.Builder
	require.NoError(t, printTimes(&screen, folder))
	all, err := os.ReadFile(filepath.Join(folder, timesFile))
	require.NoError(t, err)
	for i := range rules {
		rule := fmt.Sprintf(" a/%03d\n", i)
		assert.Contains(t, string(all), rule)
		assert.Equal(t, i >= rules-costliest, strings.Contains(screen.String(), rule), rule)
	}
	assert.Contains(t, screen.String(), fmt.Sprintf("and %d more\n", rules-costliest))
	assert.Contains(t, screen.String(), filepath.Join(folder, timesFile))
}
