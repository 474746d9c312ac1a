//go:build unix

package servertest

import (
	"encoding/base64"
	"net/http"
	"testing"
	"time"

	"github.com/elector-go/elector/internal/wait"
)

var fastEtcd = EtcdConfig{NoSync: true}

func (e *Etcd) put(key string) error {
	b64 := base64.StdEncoding.EncodeToString([]byte(key))
	return e.ask(wait.Patience, http.MethodPost, "/v3/kv/put", `{"key":"`+b64+`","value":"eA=="}`, nil)
}

func (e *Etcd) has(key string) (bool, error) {
	var answer struct {
		Count int `json:"count,string"`
	}
	b64 := base64.StdEncoding.EncodeToString([]byte(key))
	err := e.ask(wait.Patience, http.MethodPost, "/v3/kv/range", `{"key":"`+b64+`"}`, &answer)
	return answer.Count == 1, err
}

func TestEtcdLifecycle(t *testing.T) {
	t.Parallel() // it mostly waits
	begin := time.Now()
	e := EtcdForTest(t, fastEtcd)
	t.Logf("started in %v", time.Since(begin))
	checkLifecycle(t, e)
}

func TestEtcdCluster(t *testing.T) {
	t.Parallel() // it mostly waits
	begin := time.Now()
	c := EtcdClusterForTest(t, 3, fastEtcd)
	t.Logf("started in %v", time.Since(begin))
	checkCluster(t, c.cluster)
}

func TestEtcdStartFailureShowsTheLog(t *testing.T) {
	cfg := fastEtcd
	cfg.Args = []string{"--no-such-flag"}
	_, err := StartEtcd(cfg)
	checkStartFailure(t, err, "no-such-flag")
}
