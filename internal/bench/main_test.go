package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy/catalog"
)

// TestMain also lets this program be the child process that a part measures.
func TestMain(m *testing.M) {
	if _, filled := os.LookupEnv(childEnv); filled {
		main()
		return
	}
	os.Exit(m.Run())
}

// A quick run of the part that needs no server succeeds.
func TestQuickMemory(t *testing.T) {
	args := []string{"-quick", "-parts", "memory", "-memory-n", "50,200"}
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), args, &out, io.Discard))
	assert.Contains(t, out.String(), "| N | sessions | all in |")
	assert.Contains(t, out.String(), "| 200 | one each | ")
	assert.Contains(t, out.String(), "| 200 | one shared | ")

	out.Reset()
	require.NoError(t, run(t.Context(), append(args, "-json"), &out, io.Discard))
	var got struct{ Memory section }
	require.NoError(t, json.Unmarshal(out.Bytes(), &got))
	require.Len(t, got.Memory.Tables, 1)
	require.Len(t, got.Memory.Tables[0].Rows, 4)
	for i, row := range got.Memory.Tables[0].Rows {
		assert.Len(t, row, len(got.Memory.Tables[0].Head))
		assert.Equal(t, []float64{50, 200, 50, 200}[i], row[0])
		assert.Greater(t, row[2], 0.0, "the time")
		assert.Greater(t, row[4], 0.0, "the heap")
		assert.GreaterOrEqual(t, row[6], 1.0, "each has a goroutine in Campaign")
	}
}

// The smallest runs of the parts on real servers succeed. Consul takes up to 20 s to notice a crash.
func TestQuickServers(t *testing.T) {
	servertest.Long(t, "servers that nobody else uses")
	for _, k := range kinds {
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			parts := "raw," + strings.Join(catalog.Names(), ",") + ",writes,join,heat,heartbeats,death,seats"
			if k.Name != "consul" {
				parts += ",crash"
			}
			var out bytes.Buffer
			args := []string{"-quick", "-backend", k.Name, "-parts", parts, "-samples", "3", "-n", "3"}
			require.NoError(t, run(t.Context(), args, &out, io.Discard))
			cfg := must.Get(parse(args, io.Discard))(t)
			title := k.make(cfg).facts().title
			for _, name := range catalog.Names() {
				assert.Contains(t, out.String(), fmt.Sprintf("## %s: handover, %s\n", title, name))
			}
			for _, heading := range []string{"raw limit", "claims and fenced writes", "joining, memory and rest", "heat", "many elections on one session", "death of the leader's process, fair, 1 server(s)", "many seats at once"} {
				assert.Contains(t, out.String(), fmt.Sprintf("## %s: %s\n", title, heading))
			}
			assert.Contains(t, out.String(), "| step | strategy | "+title+" |")
			assert.Regexp(t, `(?s)## Summary\n.*\| 3 join, until quiet \| elector / own client \| [0-9.]+ ms / [0-9.]+ ms \|\n`, out.String())
		})
	}
}

// Neither pings nor the requests for the counters count as packets of a handover.
func TestZooKeeperCountsRequestsOnly(t *testing.T) {
	servertest.Long(t, "servers that nobody else uses")
	cfg := must.Get(parse([]string{"-quick"}, io.Discard))(t)
	z := &zooKeeper{site: site{cfg: cfg}}
	require.NoError(t, z.start())
	defer func() { require.NoError(t, z.Close()) }()
	const timeout = 3 * time.Second // a ping each second
	c := must.Get(z.dial(t.Context(), timeout))(t)
	defer c.close()
	must.Get(z.messages())(t)

	before := z.traffic.Heartbeats.Load()
	require.Eventually(t, func() bool { return z.traffic.Heartbeats.Load() >= before+3 }, wait.Patience, 10*time.Millisecond)
	n := must.Get(z.messages())(t)
	assert.InDelta(t, 0, n, 2, "a ping may be on its way")

	const reads = 50
	for range reads {
		must.First(c.conn.Exists("/"))(t)
	}
	n = must.Get(z.messages())(t)
	assert.InDelta(t, 2*reads, n, 4, "a request and an answer each")
}

func TestEtcdCountsNoKeepAlives(t *testing.T) {
	servertest.Long(t, "servers that nobody else uses")
	s := &etcdService{site: site{cfg: config{servers: 1}}}
	require.NoError(t, s.start())
	defer func() { require.NoError(t, s.Close()) }()
	client := must.Get(s.client(grpc.WithStatsHandler(rpcs{&s.traffic})))(t)
	defer client.Close()
	lease := must.Get(client.Grant(t.Context(), 60))(t)
	for range 5 {
		must.Get(client.KeepAliveOnce(t.Context(), lease.ID))(t)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	answers := client.Watch(ctx, "/k", clientv3.WithCreatedNotify())
	<-answers
	must.Get(client.Put(t.Context(), "/k", "v"))(t)
	<-answers
	assert.Equal(t, sent{requests: 2, watches: 1, heartbeats: 5}, s.sent())
	n := must.Get(s.messages())(t)
	assert.Equal(t, 4+3, n, "two calls, and on the watch's stream a request, its answer and an event")
}

func TestConsulCountsNoRenewals(t *testing.T) {
	servertest.Long(t, "servers that nobody else uses")
	s := &consulService{site: site{cfg: config{servers: 1}}}
	require.NoError(t, s.start())
	defer func() { require.NoError(t, s.Close()) }()
	client, release, err := s.client(&s.traffic)
	require.NoError(t, err)
	defer release()
	id := must.First(client.Session().CreateNoChecks(&api.SessionEntry{TTL: "60s"}, nil))(t)
	for range 5 {
		must.First(client.Session().Renew(id, nil))(t)
	}
	must.Get(client.KV().Put(&api.KVPair{Key: "k"}, nil))(t)
	_, meta, err := client.KV().Get("k", nil)
	require.NoError(t, err)
	must.First(client.KV().Get("k", &api.QueryOptions{WaitIndex: meta.LastIndex, WaitTime: 10 * time.Millisecond}))(t)
	consistent := &api.QueryOptions{RequireConsistent: true}
	_, _, _, err = client.Txn().Txn(api.TxnOps{{KV: &api.KVTxnOp{Verb: api.KVGetOrEmpty, Key: "k"}}}, consistent)
	require.NoError(t, err)
	_, _, _, err = client.Txn().Txn(api.TxnOps{{KV: &api.KVTxnOp{Verb: api.KVGetOrEmpty, Key: ".elector/" + id + "/0"}}}, consistent)
	require.NoError(t, err)
	_, _, _, err = client.Txn().Txn(api.TxnOps{{KV: &api.KVTxnOp{Verb: api.KVCheckNotExists, Key: "no"}}}, consistent)
	require.NoError(t, err)
	must.First(client.KV().Keys("k", "", consistent))(t)
	assert.Equal(t, sent{requests: 4, watches: 1, heartbeats: 8}, s.sent(), "what looks at what is awaited comes with renewals")
	n := must.Get(s.messages())(t)
	assert.Equal(t, 2*5, n, "a request and an answer each")
}

func TestFlagsAreRefusedAllAtOnce(t *testing.T) {
	_, err := parse([]string{"-backend", "etcd,paper", "-parts", "fair,lunch", "-n", "1,x", "-samples", "0", "-idle", "2m", "-ttl", "1ms", "-servers", "2", "-seats", "0", "more"}, io.Discard)
	for _, want := range []string{
		`-backend "paper"`, `-parts "lunch"`, `-n "1"`, `-n "x"`, "-samples 0", "-idle 2m0s", "-ttl 1ms", "-servers 2", `-seats "0"`, `"more"`,
	} {
		assert.ErrorContains(t, err, want)
	}
}

// The summary has a row for each thing and who, in the order of the first service, and a dash where one has none.
func TestSummary(t *testing.T) {
	a, b := &lab{facts: facts{title: "A"}}, &lab{facts: facts{title: "B"}}
	a.sum("x", "elector", 1)
	a.sum("z", "elector", 2)
	a.sum("x", "raw limit", 3)
	b.sum("x", "elector", 4)
	b.sum("y", "elector", 5)
	b.sum("x", "raw limit", 6)
	got := summary([]*lab{a, b}).Tables[0]
	assert.Equal(t, []string{"fair", "", "A", "B"}, got.Head)
	assert.Equal(t, [][]any{{"x", "elector / raw limit", "1 / 3", "4 / 6"}, {"z", "elector", "2", "–"}, {"y", "elector", "–", "5"}}, got.Rows)
}

func TestQuickGivesWayToFlags(t *testing.T) {
	cfg := must.Get(parse([]string{"-quick", "-samples", "7"}, io.Discard))(t)
	assert.Equal(t, 7, cfg.samples)
	assert.Equal(t, []int{3, 10}, cfg.n)
}
