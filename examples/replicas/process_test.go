package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend/dial"
	"github.com/elector-go/elector/internal/process"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
)

// The tests of this file are of real processes on real servers.

func TestZooKeeper(t *testing.T) {
	servertest.Long(t, "four processes that are killed and frozen")
	t.Parallel()
	server := servertest.ZooKeeperForTest(t, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true})
	nothingIsLost(t, "zk://"+server.Addr()+"?timeout=10s")
}

func TestEtcd(t *testing.T) {
	servertest.Long(t, "four processes that are killed and frozen")
	t.Parallel()
	server := servertest.EtcdForTest(t, servertest.EtcdConfig{NoSync: true})
	nothingIsLost(t, "etcd://"+server.Addr()+"?timeout=10s")
}

func TestConsul(t *testing.T) {
	servertest.Long(t, "four processes that are killed and frozen")
	t.Parallel()
	server := servertest.ConsulForTest(t, servertest.ConsulConfig{NoSync: true})
	nothingIsLost(t, "consul://"+server.Addr()+"?check=10s")
}

// nothingIsLost has a client write all the time, while primaries are killed, moved and frozen.
func nothingIsLost(t *testing.T, url string) {
	f := newFleet(t, url)
	w := startWriter(t.Context(), f.all)
	defer w.stop()
	primary := func(what string, is func(id string) bool) string {
		t.Helper()
		id, err := w.until(t.Context(), is, 100)
		require.NoError(t, err, what)
		t.Logf("%s: %s", what, id)
		return id
	}
	first := primary("the first primary", func(id string) bool { return id != "" })

	// One replica lags: it is frozen, while the other goes on. Then the primary dies. The other one takes
	// over, although the one that lags is back, and a candidate: without it there is no majority.
	others := slices.DeleteFunc(slices.Clone(f.all.voters), func(id string) bool { return id == first })
	advanced, lags := others[0], others[1]
	require.NoError(t, f.started[lags].Pause())
	primary("without the one that lags", func(id string) bool { return id == first })
	require.NoError(t, f.started[first].Kill())
	require.NoError(t, f.started[lags].Resume())
	second := primary("after the death of the first", func(id string) bool { return id != first })
	require.Equal(t, advanced, second, "the one whose log is the most advanced")
	require.NotContains(t, f.said(lags), "PRIMARY")

	// It comes back, with what was not acknowledged, and is brought to the log of the primary. The lead is
	// moved to the one that has lagged.
	require.NoError(t, f.started[first].Start())
	b, err := dial.Open(t.Context(), url)
	require.NoError(t, err)
	defer b.Close()
	// It stands again when its new session does.
	var refused error
	defer func() {
		if t.Failed() {
			t.Logf("the last move was refused: %v", refused)
		}
	}()
	wait.For(t, "the lead is moved", func() bool {
		_, refused = move(t.Context(), b, "/replicas", lags)
		return refused == nil
	})
	require.Equal(t, lags, primary("after the lead was moved", func(id string) bool { return id != second }))
	require.Contains(t, f.said(second), lags+", which is to lead next, has everything")

	// The primary is frozen for longer than its session. When it goes on, the others refuse what it sends.
	require.NoError(t, f.started[lags].Pause())
	fourth := primary("while the third is frozen", func(id string) bool { return id != lags })
	require.NoError(t, f.started[lags].Resume())
	primary("when the third goes on", func(id string) bool { return id == fourth })

	acknowledged := w.stop()
	require.GreaterOrEqual(t, len(acknowledged), 500)
	records, err := readLog(t.Context(), f.all.addrs[fourth])
	require.NoError(t, err)
	require.NoError(t, check(acknowledged, records), "the log of the primary, with %d records", len(records))
	for id, addr := range f.all.addrs {
		require.Eventually(t, func() bool {
			its, err := readLog(t.Context(), addr)
			return err == nil && slices.Equal(records, its)
		}, wait.Patience, 50*time.Millisecond, "all have the same log in the end: %s", id)
	}
	require.NotContains(t, f.said("n4"), "ELECTED", "an observer")
	for id, p := range f.started {
		require.NoError(t, p.Stop(wait.Patience), id)
		require.NotContains(t, f.said(id), "DATA RACE")
		require.NotContains(t, f.said(id), "panic")
	}
}

// A fleet is nodes in processes of their own.
type fleet struct {
	all     nodes
	dir     string
	started map[string]*process.Process
}

func newFleet(t *testing.T, url string) *fleet {
	t.Helper()
	var o options
	var err error
	o.nodes, o.observers, err = freeNodes()
	require.NoError(t, err)
	f := &fleet{dir: t.TempDir(), started: make(map[string]*process.Process)}
	f.all, err = parseNodes(o)
	require.NoError(t, err)
	for id := range f.all.addrs {
		p := process.New(process.Spec{
			Name: id, Path: binary, LogPath: filepath.Join(f.dir, id+".out"), Env: []string{"GORACE=halt_on_error=1"},
			Args: strings.Fields(fmt.Sprintf("node -id %s -nodes %s -observers %s -backend %s -data %s -step 200ms",
				id, o.nodes, o.observers, url, filepath.Join(f.dir, id))),
		})
		require.NoError(t, p.Start())
		f.started[id] = p
		t.Cleanup(func() {
			_ = p.Kill()
			if t.Failed() {
				t.Logf("%s:\n%s", id, f.said(id))
			}
		})
	}
	return f
}

// said is what a node has printed.
func (f *fleet) said(id string) string {
	text, _ := os.ReadFile(filepath.Join(f.dir, id+".out")) // none yet
	return string(text)
}
