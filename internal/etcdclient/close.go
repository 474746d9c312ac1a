// Package etcdclient works around a defect of etcd's client library.
package etcdclient

import (
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Close closes a client within patience. clientv3's own Close may block forever: a watch that the server
// refuses at that moment is on none of the lists that the stream reads when it ends, so the watch waits to
// be heard, and the stream waits for the watch (client/v3 v3.7.3, watch.go: addSubstream, run). Close
// closes the connection even so, and its error reports the goroutines that are left.
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
