//go:build unix

package servertest

import (
	"encoding/base64"
	"net/http"

	"github.com/elector-go/elector/internal/wait"
)

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
