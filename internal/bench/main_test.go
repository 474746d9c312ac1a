package main

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A quick run of the part that needs no server, so that the program does not rot.
func TestQuickMemory(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"-quick", "-parts", "memory", "-memory-n", "50,200"}, &out, io.Discard))
	assert.Contains(t, out.String(), "| N | sessions | all in |")
	assert.Contains(t, out.String(), "| 200 | one each | ")
	assert.Contains(t, out.String(), "| 200 | one shared | ")
}

func TestQuickMemoryJSON(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"-quick", "-json", "-parts", "memory", "-memory-n", "300"}, &out, io.Discard))
	var got struct{ Memory memoryResult }
	require.NoError(t, json.Unmarshal(out.Bytes(), &got))
	require.Len(t, got.Memory.Rows, 2)
	for _, row := range got.Memory.Rows {
		assert.Equal(t, 300, row.N)
		assert.Positive(t, row.Enrol)
		assert.Positive(t, row.Heap)
		assert.GreaterOrEqual(t, row.Routines, 1.0, "each has a goroutine in Campaign")
	}
}

// The parts on a real server, smallest.
func TestQuickServer(t *testing.T) {
	var out bytes.Buffer
	args := []string{"-quick", "-parts", "raw,fair,unfair,kafka,writes,crash", "-samples", "3", "-n", "3"}
	require.NoError(t, run(t.Context(), args, &out, io.Discard))
	for _, heading := range []string{"## Raw limit", "## Handover, fair", "## Handover, unfair", "## Handover, kafka", "## Claims and fenced writes", "## Crash of the leader, fair"} {
		assert.Contains(t, out.String(), heading)
	}
}

// Pings and the asking itself must not be taken for packets of a handover.
func TestMeterCountsRequestsOnly(t *testing.T) {
	cfg, err := parse([]string{"-quick"}, io.Discard)
	require.NoError(t, err)
	l := &lab{cfg: cfg, log: io.Discard}
	require.NoError(t, l.start())
	defer func() { require.NoError(t, l.close()) }()
	const timeout = 600 * time.Millisecond // a ping each 200 ms
	r, err := l.newRawPair(t.Context(), l.zk.Addr(), l.zk.Addr(), "/meter", timeout)
	require.NoError(t, err)
	defer r.close()
	m := meter{l: l}
	_, err = m.packets()
	require.NoError(t, err)

	before := l.pings.n.Load()
	require.Eventually(t, func() bool { return l.pings.n.Load() >= before+6 }, 10*time.Second, 10*time.Millisecond)
	n, err := m.packets()
	require.NoError(t, err)
	assert.InDelta(t, 0, n, 2, "a ping may be on its way")

	const reads = 50
	for range reads {
		_, _, err := r.owner.Exists("/")
		require.NoError(t, err)
	}
	n, err = m.packets()
	require.NoError(t, err)
	assert.InDelta(t, 2*reads, n, 4, "a request and an answer each")
}

func TestFlagsAreRefusedAllAtOnce(t *testing.T) {
	_, err := parse([]string{"-parts", "fair,lunch", "-n", "1,x", "-samples", "0", "-idle", "2m", "-ttl", "1ms", "more"}, io.Discard)
	for _, want := range []string{
		`-parts "lunch"`, `-n "1"`, `-n "x"`, "-samples 0", "-idle 2m0s", "-ttl 1ms", `"more"`,
	} {
		assert.ErrorContains(t, err, want)
	}
}

func TestQuickGivesWayToFlags(t *testing.T) {
	cfg, err := parse([]string{"-quick", "-samples", "7"}, io.Discard)
	require.NoError(t, err)
	assert.Equal(t, 7, cfg.samples)
	assert.Equal(t, []int{3, 10}, cfg.n)
}

func TestSummarize(t *testing.T) {
	var delays []time.Duration
	for i := 100; i >= 1; i-- {
		delays = append(delays, time.Duration(i))
	}
	assert.Equal(t, dist{N: 100, Min: 1, P50: 50, P90: 90, P99: 99, Max: 100, Mean: 50}, summarize(delays))
	assert.Equal(t, dist{N: 1, Min: 7, P50: 7, P90: 7, P99: 7, Max: 7, Mean: 7}, summarize([]time.Duration{7}))
	assert.Equal(t, dist{}, summarize(nil))
}
