package consultest_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/internal/consultest"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/wait"
)

// The faults do what they say, with any backend.
func TestFaults(t *testing.T) {
	servers := consultest.Cluster(t)
	p := servers.NewProcess(t, consul.Config{})
	kv, txn := p.Client.KV(), p.Client.Txn()
	root := servers.Root()[1:]
	value := func(key string) string {
		t.Helper()
		pair := must.First(kv.Get(root+"/"+key, nil))(t)
		if pair == nil {
			return ""
		}
		return string(pair.Value)
	}
	write := func(verb api.KVOp, key string) error {
		_, _, _, err := txn.Txn(api.TxnOps{{KV: &api.KVTxnOp{Verb: verb, Key: root + "/" + key, Value: []byte("x")}}}, nil)
		return err
	}

	// A connection that was just cut may be used once more, and a write is not repeated.
	writes := func(key string) {
		t.Helper()
		require.Eventually(t, func() bool { return write(api.KVCAS, key) == nil }, wait.Patience, 10*time.Millisecond)
	}

	p.LoseReply(consultest.MatchKind(backend.OpCompareAndSet))
	require.Empty(t, value("a"), "reads do not match")
	require.Error(t, write(api.KVCAS, "a"))
	assert.Equal(t, "x", value("a"))
	writes("b") // it fires once

	p.LoseRequest(consultest.MatchKind(backend.OpCompareAndSet))
	require.Error(t, write(api.KVCAS, "c"))
	assert.Empty(t, value("c"))

	p.CutReply(consultest.MatchKind(backend.OpCompareAndSet))
	require.Error(t, write(api.KVCAS, "d"))
	require.Error(t, write(api.KVCAS, "e"))
	p.Resume()
	assert.Equal(t, "x", value("d"))
	assert.Empty(t, value("e"))
	writes("e")

	id := must.First(p.Client.Session().CreateNoChecks(&api.SessionEntry{TTL: "10s"}, nil))(t)
	require.Equal(t, []string{id}, p.Sessions())
	p.Expire()
	session := must.First(p.Client.Session().Info(id, nil))(t)
	assert.Nil(t, session)

	_, meta, err := kv.Get(root+"/a", nil)
	require.NoError(t, err)
	release := p.HoldWakeups()
	woken := make(chan error)
	go func() {
		_, _, err := kv.Get(root+"/a", &api.QueryOptions{WaitIndex: meta.LastIndex})
		woken <- err
	}()
	watches := servers.Service(time.Second, consul.Config{})(t).Watches
	require.Eventually(t, func() bool { n, _ := watches(); return n == 1 }, wait.Patience, time.Millisecond)
	require.NoError(t, consultest.DeleteAll(servers.Members, "/"+root))
	for range 3 {
		assert.Empty(t, value("a"))
	}
	select {
	case <-woken:
		t.Fatal("it was not held")
	default:
	}
	release()
	require.NoError(t, <-woken)

	require.NoError(t, consultest.PutAll(servers.Members, "/"+root+"/deep/ü %zz", []byte("y")))
	assert.Equal(t, "y", value("deep/ü %zz"))
	pair := must.First(kv.Get(root+"/deep", nil))(t)
	assert.NotNil(t, pair)

	// A member that is down is avoided, and a process may be kept to one.
	for i, m := range servers.Members {
		require.NoError(t, m.Kill())
		writes(fmt.Sprint("f", i))
		p.Only(i)
		p.Cut()
		require.Error(t, write(api.KVCAS, "f"))
		p.Resume()
		require.NoError(t, m.Start())
	}

	remove := p.Intercept(func(*consultest.Request) (*http.Response, error) {
		return consultest.Answer(http.StatusInternalServerError, "No cluster leader"), nil
	})
	_, _, err = kv.Get(root, nil)
	var status api.StatusError
	require.ErrorAs(t, err, &status)
	assert.Equal(t, http.StatusInternalServerError, status.Code)
	remove()
	must.First(kv.Get(root, nil))(t)
}
