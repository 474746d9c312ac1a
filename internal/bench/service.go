package main

import (
	"context"
	"time"

	"github.com/elector-go/elector/backend"
)

// A service is a coordination service to measure on: its server, the backend for it,
// and its bare client, which shows what the service by itself takes.
type service interface {
	facts() facts
	// start starts the server, which Close ends.
	start() error
	Close() error
	Addr() string
	// open makes a backend for one candidate, with connections of its own.
	open(addr string, ttl time.Duration) (seat, error)
	// connect connects a bare client.
	connect(ctx context.Context, addr string, ttl time.Duration) (bare, error)
	// plain is what the client library calls its own lock or election.
	plain() string
	// contend makes a contender that uses it with the library's defaults, on a connection of its own.
	contend(addr, path string, ttl time.Duration) (contender, error)
	// standing counts those that have it or wait for it.
	standing(ctx context.Context, addr, path string) (int, error)
	// sent tells what the candidates have sent so far.
	sent() sent
	// messages returns how many messages the candidates have sent and received since
	// the last call, heartbeats left out.
	messages() (int, error)
	// crashes are the kinds of sessions that a crashed leader may have had.
	crashes() []crashKind
}

// seat is what a candidate sits on. release, if there is one, gives its connections
// up when the candidate has closed.
type seat struct {
	backend backend.Backend
	release func()
}

// sent is what clients have sent.
type sent struct {
	requests   int // each has one answer, for which somebody may wait
	watches    int // requests whose answer is a change; what is no request of its own is left out
	heartbeats int // which are not among the requests
}

// A bare client is the service's own one, used directly.
type bare interface {
	// found makes rawEpoch, which stays.
	found(ctx context.Context) error
	// create makes what remove deletes.
	create(ctx context.Context, key string) error
	remove(ctx context.Context, key string) error
	// watch watches a key that exists. The channel gets the instant at which its
	// deletion has come to the watcher's goroutine; it is closed after that, or if
	// something else has happened.
	watch(ctx context.Context, key string) (<-chan time.Time, error)
	// claim writes rawEpoch and creates rawSeat in one transaction.
	claim(ctx context.Context) error
	// write checks that rawEpoch is there and writes it in one transaction.
	write(ctx context.Context) error
	// end ends the session of a will, whose process is dead.
	end(ctx context.Context, w backend.Will) error
	close()
}

// The keys of bare clients.
const (
	rawKey   = "/bench-raw"
	rawSeat  = "/bench-raw-seat"
	rawEpoch = "/bench-raw-epoch"
)

// facts are what the printed method says of a service.
type facts struct {
	title    string
	n        []int         // numbers of candidates if none are asked for
	files    int           // open files of a candidate
	minTTL   time.Duration // of a session
	raw      string        // what the raw limit consists in
	clients  string        // what a candidate connects with
	messages string        // what is counted as one, and where
	sync     string        // what the server's disk has to do with it
	expiry   string        // when the service ends the session of one who is silent
	ends     string        // how the bare client ends a session that is another's
}

// crashKind is a kind of session that a crashed leader may have had.
type crashKind struct {
	name string
	open func(addr string) (seat, error)
}

// A kind of service is one that -backend names.
type kind struct {
	name string
	make func(cfg config) service
}

var kinds = []kind{
	{"zookeeper", newZooKeeper},
	{"etcd", newEtcd},
	{"consul", newConsul},
}
