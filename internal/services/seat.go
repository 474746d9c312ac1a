package services

import (
	"context"
	"errors"
	"strings"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/dial"
	"github.com/elector-go/elector/backend/memory"
)

// A Seat is one client's way to a service.
type Seat struct {
	Backend backend.Backend
	Cut     func()       // silences the client, without a goodbye
	Mend    func()       // ends Cut
	Close   func() error // gives the connections up, when all on the backend has been closed
}

// Embedded is a service in this process.
type Embedded struct{ *memory.Service }

// Seat makes a seat.
func (e Embedded) Seat() (Seat, error) {
	client := e.Client("process")
	return Seat{client, client.Suspend, client.Resume, func() error { return nil }}, nil
}

// Remote is a service that a URL names, as package dial takes it.
type Remote struct {
	URL     string
	Traffic Traffic // of all seats, on ZooKeeper alone
}

// Scheme is the URL's: "zk", "etcd" or "consul".
func (r *Remote) Scheme() string {
	scheme, _, _ := strings.Cut(r.URL, "://")
	return scheme
}

// Seat makes a seat. It does not connect.
func (r *Remote) Seat() (Seat, error) {
	line := new(Line)
	if r.Scheme() == "zk" {
		line.Traffic = &r.Traffic
	}
	b, err := dial.Open(context.Background(), r.URL, dial.WithDialContext(line.Dial))
	if err != nil {
		return Seat{}, err
	}
	return Seat{b, line.Cut, line.Mend, func() error {
		if err := b.Close(); err != nil && !errors.Is(err, context.Canceled) { // etcd's client reports its own context's end
			return err
		}
		return nil
	}}, nil
}
