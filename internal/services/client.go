package services

import (
	"context"
	"errors"
	"strings"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/dial"
	"github.com/elector-go/elector/backend/memory"
)

// A Client is the access of one client to a service.
type Client struct {
	Backend backend.Backend
	Cut     func()       // silences the client abruptly
	Mend    func()       // ends Cut
	Close   func() error // closes the connections, when everything on the backend has been closed
}

// Embedded is a service in this process.
type Embedded struct{ *memory.Service }

// Client makes a client.
func (e Embedded) Client() (Client, error) {
	client := e.Service.Client("process")
	return Client{client, client.Suspend, client.Resume, func() error { return nil }}, nil
}

// Remote is a service that a URL of package dial names.
type Remote struct {
	URL     string
	Traffic Traffic // of all clients, on ZooKeeper only
}

// Scheme returns the URL's scheme, as Service has it.
func (r *Remote) Scheme() string {
	scheme, _, _ := strings.Cut(r.URL, "://")
	return scheme
}

// Client makes a client. It does not connect.
func (r *Remote) Client() (Client, error) {
	line := new(Line)
	if r.Scheme() == ZooKeeper.Scheme {
		line.Traffic = &r.Traffic
	}
	b, err := dial.Open(context.Background(), r.URL, dial.WithDialContext(line.Dial))
	if err != nil {
		return Client{}, err
	}
	return Client{b, line.Cut, line.Mend, func() error {
		if err := b.Close(); err != nil && !errors.Is(err, context.Canceled) { // etcd's client reports the end of its own context
			return err
		}
		return nil
	}}, nil
}
