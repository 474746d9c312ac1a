// Package etcdclient works around a defect of etcd's client library.
package etcdclient

import (
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Close closes a client. It blocks no longer than patience, where clientv3's own Close may
// block for ever: a watch that the server refuses at that moment is on none of the lists of
// those that the stream listens to when it ends, waits to be heard, and the stream waits for
// it (client/v3 v3.7.3, watch.go: addSubstream, run). The connection is closed even so, and
// an error tells of the goroutines that are left.
func Close(client *clientv3.Client, patience time.Duration) error {
	done := make(chan error, 1)
	go func() { done <- client.Close() }()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		err := fmt.Errorf("etcd: the client's Close has not returned after %v; its connection is closed, its goroutines are left", patience)
		return errors.Join(err, client.ActiveConnection().Close())
	}
}
