package backend_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/must"
)

func TestWillAsText(t *testing.T) {
	w := backend.Will{Service: "zookeeper", Session: "1a2b", TTL: 10 * time.Second, Secret: []byte("hidden\n")}
	text := must.Get(json.Marshal(w))(t)
	var read backend.Will
	require.NoError(t, json.Unmarshal(text, &read))
	assert.Equal(t, w, read)

	for text, says := range map[string]string{
		`{"version":2,"service":"etcd","session":"1","ttl":"1s"}`:  "version 2",
		`{"service":"etcd","session":"1","ttl":"1s"}`:              "version 0",
		`{"version":1,"session":"1","ttl":"1s"}`:                   "no service",
		`{"version":1,"service":"etcd","ttl":"1s"}`:                "no session",
		`{"version":1,"service":"etcd","session":"1","ttl":"1"}`:   "timeout",
		`{"version":1,"service":"etcd","session":"1","ttl":"-1s"}`: "timeout",
		`[]`: "will:",
	} {
		assert.ErrorContains(t, json.Unmarshal([]byte(text), &read), says, text)
	}
}

func TestWillHidesItsSecret(t *testing.T) {
	w := backend.Will{Service: "zookeeper", Session: "1a2b", TTL: time.Second, Secret: []byte("hidden")}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("a will", "will", w)
	said := log.String() + fmt.Sprintf("%v %+v %#v %s", w, w, w, w)
	for _, secret := range []string{"hidden", fmt.Sprint([]byte("hidden")), "68696464656e"} {
		assert.NotContains(t, said, secret)
	}
	assert.Contains(t, said, "1a2b")
}

// Neither a session nor a Backend has to support wills.
func TestWillUnsupported(t *testing.T) {
	s := backend.NewSession("other", driver{})
	assert.ErrorIs(t, must.Err(s.Will()), errors.ErrUnsupported)
	for _, b := range []backend.Backend{other{}, backend.Intercept(other{}, nil), backend.Share(other{}, time.Second)} {
		assert.ErrorIs(t, backend.Execute(t.Context(), b, backend.Will{Service: "other", Session: "1", TTL: time.Second}), errors.ErrUnsupported)
	}
	assert.ErrorContains(t, backend.Execute(t.Context(), executor{}, backend.Will{Service: "etcd"}), `"etcd"`)
}

type driver struct{ backend.Driver }

type other struct{ backend.Backend }

func (other) String() string { return "other" }

type executor struct {
	other
	backend.Executor
}
