package consultest

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
)

// Operator returns a separate client, as another tool would have.
func Operator(server *servertest.Consul) (*api.Client, error) {
	cfg := api.DefaultConfig()
	cfg.Address, cfg.Token = server.Addr(), server.Token()
	// One connection per action: none is left that a restart has broken.
	cfg.Transport.Proxy, cfg.Transport.DisableKeepAlives = nil, true
	cfg.HttpClient = &http.Client{Transport: cfg.Transport, Timeout: 20 * time.Second}
	return api.NewClient(cfg)
}

// operate does something as an operator, at the first server that can be reached and knows a leader.
func operate(servers []*servertest.Consul, do func(*api.Client) error) error {
	deadline := time.Now().Add(wait.Patience)
	for {
		var errs []error
		for _, server := range servers {
			client, err := Operator(server)
			if err != nil {
				return err
			}
			if err = do(client); err == nil || !passing(err) {
				return err
			}
			errs = append(errs, err)
		}
		if time.Now().After(deadline) {
			return errors.Join(errs...)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// passing reports whether the failure is one of a server that is down or has no leader. The action may
// have been done; everything that operators do here can be done twice.
func passing(err error) bool {
	var status api.StatusError
	var link net.Error
	if errors.As(err, &status) {
		return status.Code >= 500
	}
	// The client's function for transactions drops the status: a final refusal is repeated as long as
	// the others.
	return errors.As(err, &link) || strings.HasPrefix(err.Error(), "Failed request: ")
}

// name returns Consul's name of a key.
func name(key string) string { return strings.TrimPrefix(key, "/") }

// Stored counts all keys, and the bytes of keys and values.
func Stored(servers []*servertest.Consul) (keys, bytes int, err error) {
	err = operate(servers, func(client *api.Client) error {
		all, _, err := client.KV().List("", &api.QueryOptions{RequireConsistent: true})
		keys, bytes = 0, 0
		for _, p := range all {
			keys, bytes = keys+1, bytes+len(p.Key)+len(p.Value)
		}
		return err
	})
	return keys, bytes, err
}

// DeleteAll is "rm -r"; a missing key is no error.
func DeleteAll(servers []*servertest.Consul, key string) error {
	return operate(servers, func(client *api.Client) error {
		ok, response, _, err := client.Txn().Txn(api.TxnOps{
			{KV: &api.KVTxnOp{Verb: api.KVDeleteTree, Key: name(key) + "/"}},
			{KV: &api.KVTxnOp{Verb: api.KVDelete, Key: name(key)}},
		}, nil)
		if err == nil && !ok {
			err = fmt.Errorf("delete %s: %s", key, response.Errors[0].What)
		}
		return err
	})
}

// PutAll writes a persistent key and creates what is missing above it.
func PutAll(servers []*servertest.Consul, key string, value []byte) error {
	return operate(servers, func(client *api.Client) error {
		full := name(key)
		for i, c := range full {
			if c != '/' {
				continue
			}
			// Index 0 writes only if there is nothing.
			if _, _, err := client.KV().CAS(&api.KVPair{Key: full[:i]}, nil); err != nil {
				return err
			}
		}
		_, err := client.KV().Put(&api.KVPair{Key: full, Value: value}, nil)
		return err
	})
}

// Destroy ends a session as an operator does, or as the agent does when its check of the session was
// not updated in time.
func Destroy(servers []*servertest.Consul, id string) error {
	return operate(servers, func(client *api.Client) error {
		session, _, err := client.Session().Info(id, &api.QueryOptions{RequireConsistent: true})
		if err != nil || session == nil {
			return err
		}
		for _, check := range session.ServiceChecks {
			if err := client.Agent().UpdateTTL(check.ID, "not updated in time", api.HealthCritical); err != nil {
				return err
			}
		}
		_, err = client.Session().Destroy(id, nil)
		return err
	})
}
