package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/inspect"
	"github.com/elector-go/elector/internal/loopback"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/wait"
)

var all = []string{"n1", "n2", "n3"}

// A cluster is three replicas on fake time, with a service, and a network that can hold back messages.
type cluster struct {
	*testing.T
	dir     string
	service *memory.Service
	latency atomic.Int64 // of the service
	held    atomic.Value // func(from, to string) bool: which messages are held
	refused atomic.Int64 // puts
	running sync.WaitGroup
	started sync.Map            // of *replica, by ID
	acks    map[position]string // acknowledged records
}

// A replica is a node in its cluster.
type replica struct {
	*node
	cluster *cluster
	process *memory.Client
	ctx     context.Context // until its death
	stop    context.CancelFunc
	said    bytes.Buffer
}

func none(_, _ string) bool { return false }

// inCluster runs a test. Then it holds that all end with the same log, with all that was acknowledged.
func inCluster(t *testing.T, test func(c *cluster)) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{T: t, dir: t.TempDir(), acks: make(map[position]string)}
		c.service = memory.New(memory.Options{Latency: func() time.Duration { return time.Duration(c.latency.Load()) }})
		defer c.running.Wait()
		defer func() {
			c.held.Store(none)
			c.started.Range(func(_, r any) bool {
				r.(*replica).stop()
				return true
			})
		}()
		c.held.Store(none)
		for _, id := range all {
			c.start(id)
			require.Equal(t, id != "n1", c.said("n1", "elected"), "once a majority stands")
		}
		test(c)
		time.Sleep(time.Minute)
		_, records := c.replica("n1").journal.read(0)
		for _, id := range all {
			_, its := c.replica(id).journal.read(0)
			require.Equal(t, records, its, id)
		}
		for at, data := range c.acks {
			require.LessOrEqual(t, at.Index, len(records), "LOST: %s", data)
			require.Equal(t, record{at.Token, data}, records[at.Index-1], "LOST")
		}
	})
}

func (c *cluster) start(id string) {
	j := must.Get(openJournal(filepath.Join(c.dir, id)))(c)
	r := &replica{cluster: c, process: c.service.Client(id)}
	r.node = &node{id: id, nodes: all, journal: j, send: r.send, log: slog.New(slog.NewTextHandler(&r.said, nil))}
	r.ctx, r.stop = context.WithCancel(c.Context())
	c.started.Store(id, r)
	c.running.Go(func() {
		if err := r.run(r.ctx, r.process); !errors.Is(err, backend.ErrSessionLost) { // it was killed
			assert.NoError(c, err, id)
		}
		assert.NoError(c, j.file.Close())
	})
	time.Sleep(5100 * time.Millisecond) // it stands, and has just reported its rank
}

// kill is kill -9. A companion of the process ends its session in the service at once.
func (c *cluster) kill(id string) {
	r := c.replica(id)
	wills := r.process.Kill()
	r.stop()
	for _, will := range wills {
		require.NoError(c, backend.Execute(c.Context(), c.service, will))
	}
}

func (c *cluster) replica(id string) *replica {
	r, _ := c.started.Load(id)
	started, _ := r.(*replica)
	return started
}

func (c *cluster) said(id, what string) bool {
	synctest.Wait()
	return strings.Contains(c.replica(id).said.String(), what)
}

// send delivers a put, even when nobody waits for the answer any more.
func (r *replica) send(to string, p put) (position, error) {
	c := r.cluster
	var end position
	var err error
	answered := make(chan struct{})
	c.running.Go(func() {
		for c.held.Load().(func(from, to string) bool)(r.id, to) {
			time.Sleep(10 * time.Millisecond)
		}
		other := c.replica(to)
		if r.ctx.Err() != nil || other == nil || other.ctx.Err() != nil {
			return // messages from and to the dead are lost
		}
		if err = other.journal.put(p); errors.Is(err, errOld) {
			c.refused.Add(1)
		}
		end = other.journal.end()
		close(answered)
	})
	select {
	case <-answered:
		return end, err
	case <-time.After(patience):
		return position{}, errors.New("no answer")
	}
}

// try writes to one replica.
func (c *cluster) try(id, data string) error {
	at, err := c.replica(id).write(data)
	if err == nil {
		assert.NotContains(c, c.acks, at)
		c.acks[at] = data
	}
	return err
}

// write writes for two seconds, or until it succeeds, and returns the last replica that acknowledged.
func (c *cluster) write(data string) (primary string) {
	for acked, tries := 0, 0; acked < 10 && tries < 300; tries++ {
		id := all[tries%len(all)]
		if c.try(id, data) == nil {
			primary = id
			acked++
		}
		time.Sleep(50 * time.Millisecond)
	}
	return primary
}

func TestNothingIsLost(t *testing.T) {
	inCluster(t, func(c *cluster) {
		const first, lags, advanced = "n1", "n2", "n3"
		require.Equal(c, first, c.write("by the first"))

		// One lags, although it stands. Then the primary dies with a record that no other one has.
		c.held.Store(func(_, to string) bool { return to == lags })
		require.Equal(c, first, c.write("while one lags"))
		c.held.Store(func(_, _ string) bool { return true })
		err := c.try(first, "not acknowledged")
		require.ErrorContains(c, err, "perhaps written")
		c.kill(first)
		c.held.Store(none)
		require.Equal(c, advanced, c.write("by the second"), "the most advanced of the two")
		require.False(c, c.said(lags, "elected"))
		c.start(first)
		require.Equal(c, advanced, c.write("while the first is back"))

		// The lead is moved by name to the one that lags. Meanwhile the primary's rank changes all the time,
		// and the service is so slow that nobody can look between two changes.
		c.held.Store(func(_, to string) bool { return to == lags })
		c.latency.Store(int64(300 * time.Millisecond))
		moved := make(chan struct{})
		c.running.Go(func() {
			defer close(moved)
			for tries := 0; tries < 20 && c.write("during the move") == advanced; tries++ {
			}
		})
		asking, cancel := context.WithTimeout(c.Context(), 30*time.Second)
		defer cancel()
		in := must.Get(inspect.New(c.service.Client("operator"), inspect.Options{}))(c)
		leader := must.Get(in.Transfer(asking, election, lags, elector.Request{}))(c)
		require.NoError(c, in.Close(asking))
		require.Equal(c, advanced, leader.ID)
		c.latency.Store(0)
		time.Sleep(2 * time.Second)
		c.held.Store(none)
		<-moved
		require.Equal(c, lags, c.write("by the third"))

		// The primary is frozen, with a pending record. When it continues, the others refuse it.
		c.held.Store(func(from, _ string) bool { return from == lags })
		err = c.try(lags, "too late")
		require.ErrorContains(c, err, "perhaps written")
		c.replica(lags).process.Suspend()
		require.NotEqual(c, lags, c.write("by the fourth"))
		refused := c.refused.Load()
		c.held.Store(none)
		c.replica(lags).process.Resume()
		c.write("when the third goes on")
		require.Greater(c, c.refused.Load(), refused)
	})
}

// The rank is as old as its last write in the service. A primary that finds a more advanced log goes.
func TestStaleRank(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.held.Store(func(_, to string) bool { return to == "n2" })
		require.NoError(c, c.try("n1", "only n1 and n3 have it"))
		c.kill("n1")
		c.held.Store(none)
		require.Equal(c, "n3", c.write("by n3"))
		require.True(c, c.said("n2", "the log of n3 is more advanced"))
		c.start("n1")
	})
}

func TestJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	reopen := func() *journal {
		j := must.Get(openJournal(path))(t)
		t.Cleanup(func() { _ = j.file.Close() })
		return j
	}
	j := reopen()
	require.NoError(t, j.put(put{Token: 5, Records: []record{{5, "a"}, {5, "b"}}}))
	require.NoError(t, j.put(put{Token: 7}))
	j = reopen() // a claim outlives a crash
	for _, late := range []put{{}, {Token: 6}, {Token: 6, Prev: position{5, 2}, Records: []record{{6, "late"}}}} {
		require.ErrorIs(t, j.put(late), errOld)
	}

	// What differs goes. What is there already stays, with what follows: the answer may have been lost.
	require.NoError(t, j.put(put{Token: 7, Prev: position{5, 1}, Records: []record{{6, "B"}, {7, "c"}}}))
	require.NoError(t, j.put(put{Token: 7, Records: []record{{5, "a"}, {6, "B"}}}))
	require.Equal(t, position{7, 3}, j.end())
	require.Equal(t, []int64{7, 3}, j.end().rank())
	for _, prev := range []position{{7, 4}, {5, 2}, {8, 1}, {7, -1}} {
		require.ErrorIs(t, j.put(put{Token: 7, Prev: prev, Records: []record{{7, "x"}}}), errGap, "%v", prev)
	}

	// A crash in the middle of a write, and then a write that fails.
	text := must.Get(os.ReadFile(path))(t)
	text = append(text, `{"token":7,"prev":{"token":7,"index":3},"records":[{"token":7,"data":"a long one that`...)
	require.NoError(t, os.WriteFile(path, text, 0))
	j = reopen()
	require.NoError(t, os.WriteFile(path, append(text, " is whole\n"...), 0))
	require.NoError(t, j.put(put{Token: 7, Prev: position{7, 3}, Records: []record{{7, "d"}}}))
	_, records := reopen().read(0)
	require.Equal(t, []record{{5, "a"}, {6, "B"}, {7, "c"}, {7, "d"}}, records)
}

// The program itself: three nodes that talk over HTTP.
func TestRun(t *testing.T) {
	t.Chdir(t.TempDir())
	ports := must.Get(loopback.Ports(len(all)))(t)
	nodes := make([]string, len(all))
	for i, port := range ports {
		nodes[i] = fmt.Sprint("127.0.0.1:", port)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, id := range nodes {
		running.Go(func() {
			assert.NoError(t, run(ctx, []string{"-backend", "mem://replicas", "-nodes", strings.Join(nodes, ","), "-id", id}))
		})
	}
	post := func(url, body string) int {
		answer, err := http.Post("http://"+url, "text/plain", strings.NewReader(body))
		if err != nil {
			return 0
		}
		defer answer.Body.Close()
		return answer.StatusCode
	}
	wait.For(t, "a record is acknowledged", func() bool {
		return slices.ContainsFunc(nodes, func(id string) bool { return post(id+"/log", "a record") == http.StatusOK })
	})
	for _, id := range nodes {
		wait.For(t, "it has the record", func() bool {
			log, _ := os.ReadFile(id + ".log")
			return bytes.Contains(log, []byte("a record"))
		})
		assert.Equal(t, http.StatusConflict, post(id+"/put", `{"token":1}`))
		assert.Equal(t, http.StatusConflict, post(id+"/log", strings.Repeat("x", maxRecord+1)))
	}
	stop()
	running.Wait()
}
