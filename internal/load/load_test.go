package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
)

func TestMain(m *testing.M) { os.Exit(servertest.Main(m)) }

// The loads pass, scaled down.
func TestMemory(t *testing.T) {
	load(t, "-backend", "memory", "-candidates", "1000", "-elections", "200", "-handovers", "200", "-ttl", "1s")
}

func TestZooKeeper(t *testing.T) {
	load(t, "-backend", "zookeeper", "-candidates", "200", "-elections", "100", "-handovers", "50", "-ttl", "10s", "-server-heap", "256")
}

func load(t *testing.T, args ...string) {
	t.Helper()
	servertest.Long(t, "a load")
	var out, log bytes.Buffer
	err := run(t.Context(), args, &out, &log)
	t.Logf("%s", log.Bytes())
	require.NoError(t, err)
	for _, step := range []string{"| join |", "| half of the sessions end", "| they come back |", "| all leave |", "| as before: "} {
		if n := strings.Count(out.String(), step); n != 2 {
			t.Errorf("%d loads have a step %q, and should be 2:\n%s", n, step, out.Bytes())
		}
	}
}

// The leak of one candidate that was not closed is found, with all that it has.
func TestLeak(t *testing.T) {
	servertest.Long(t, "a load")
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			cfg := must.Get(parse([]string{"-candidates", "10", "-ttl", "10s", "-server-heap", "256"}, io.Discard))(t)
			w := must.Get(k.start(cfg))(t)
			defer func() {
				assert.NoError(t, w.close())
			}()
			q := newTrial(t.Context(), cfg.candidates, 1, w, &report{log: io.Discard})
			require.NoError(t, q.found())
			before := must.Get(start(t.Context(), w))(t)
			require.NoError(t, q.gather(cfg, cfg.candidates))
			require.NoError(t, q.join(cfg.join))
			// The leader and all others except one leave; that one leads then.
			q.leaving.Store(true)
			require.NoError(t, q.Leave(q.Candidates[:cfg.candidates-1], patience))
			err := settled(t.Context(), w, before, time.Second)
			require.Error(t, err, "the candidate that was not closed is not found")
			found := []string{"goroutines, not", "1 sessions, not 0", " watches, not 0"}
			if k.name == "memory" {
				found = append(found, "entries, not")
			} else {
				found = append(found, "connections, not", "znodes, not", "1 ephemeral ones, not 0", "open files, not")
			}
			for _, leak := range found {
				assert.ErrorContains(t, err, leak)
			}
			assert.NoError(t, q.leaveAll())
			assert.NoError(t, settled(t.Context(), w, before, grace))
		})
	}
}

// The election of a candidate that is not next is found, and so is a wrong list.
func TestOrder(t *testing.T) {
	l := newLine()
	l.enter("b", 7)
	l.enter("a", 9)
	l.enter("c", 8)
	assert.NoError(t, l.elected("b", 7))
	for id, token := range map[string]uint64{"b": 8, "a": 9, "c": 7} {
		assert.Error(t, l.elected(id, token), "%s may be elected with token %d", id, token)
	}
	l.leave("b")
	assert.NoError(t, errors.Join(l.elected("c", 8), l.listed([]string{"c", "a"})))
	for _, listed := range [][]string{{"a", "c"}, {"c"}, {"c", "a", "a"}, {}, {"c", "b"}} {
		assert.Error(t, l.listed(listed), "%q may be listed", listed)
	}
}

func TestFlagsAreRefusedAllAtOnce(t *testing.T) {
	_, err := parse([]string{"-backend", "memory,paper", "-candidates", "3", "-elections", "1", "-handovers", "0", "-join", "0", "-ttl", "1ms", "-server-heap", "1", "more"}, io.Discard)
	for _, want := range []string{`-backend "paper"`, "-candidates 3", "-elections 1", "-handovers 0", "-join 0", "-ttl 1ms", "-server-heap 1", `"more"`} {
		assert.ErrorContains(t, err, want)
	}
}
