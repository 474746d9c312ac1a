package consul_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/consultest"
)

// behind has reads that do not ask for the newest answered as by a leader that
// has not applied yet what made their keys: a new one, or one that was deposed.
func (f *fixture) behind() {
	f.Intercept(func(request *http.Request, body []byte, send consultest.Send) (*http.Response, error) {
		ops := consultest.Txn(request, body)
		if !onlyReads(ops) || request.URL.Query().Has("consistent") {
			return send()
		}
		var none api.TxnResponse
		for _, op := range ops {
			none.Results = append(none.Results, &api.TxnResult{KV: &api.KVPair{Key: op.KV.Key}})
		}
		text, err := json.Marshal(none)
		if err != nil {
			return nil, err
		}
		return consultest.Answer(http.StatusOK, string(text)), nil
	})
}

// A leader that knows neither the candidate nor its predecessor yet says that both are
// gone. It is right about the latter only.
func TestAwaitAnsweredByALaggingLeader(t *testing.T) {
	f := setUp(t)
	o := f.another()
	before := f.enqueue(o.s)
	me := f.enqueue(f.s)
	waiting := f.await(me, before)
	f.behind()
	require.NoError(t, o.s.Drop(o.ctx, before))
	now, err := receive(f, waiting)
	require.NoError(t, err)
	assert.True(t, now[0].Same(me), "it stands, and was never gone")
	assert.False(t, now[1].Exists())
	p, err := f.s.Predecessor(f.ctx, me)
	require.NoError(t, err)
	assert.False(t, p.Exists())
	// What was once taken to be gone would be so for good.
	_, err = f.s.Commit(f.ctx, []backend.Guard{backend.Held(me)})
	require.NoError(t, err)
}

// An answer that was on its way for long says that nothing is there. What was made since
// is shown all the same, and at once.
func TestAwaitBesideALateAnswer(t *testing.T) {
	f := setUp(t)
	o := f.another()
	key := f.dir + "/seat"
	held, release := make(chan struct{}), make(chan struct{})
	remove := f.Intercept(func(request *http.Request, _ []byte, send consultest.Send) (*http.Response, error) {
		response, err := send()
		if path(request, "kv"+key) && !consultest.Blocking(request) {
			close(held)
			<-release
		}
		return response, err
	})
	reading := later(func() (backend.Entry, error) { return f.s.Get(f.ctx, key) })
	<-held
	remove()
	seat := f.commit(o.s, backend.Create(key, nil))[0]
	f.await(seat) // keeps the watch
	eventually(t, "the watch shows it", func() bool {
		now, err := f.s.Await(f.ctx, backend.Unknown(key))
		return err == nil && now[0].Same(seat)
	})
	close(release)
	_, err := receive(f, reading)
	require.ErrorIs(t, err, backend.ErrNoEntry)
	began := time.Now()
	now, err := f.s.Await(f.ctx, backend.Unknown(key))
	require.NoError(t, err)
	assert.True(t, now[0].Same(seat))
	assert.Less(t, time.Since(began), 5*time.Second)
}
