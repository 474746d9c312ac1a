package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/services"
)

// A service is a coordination service to measure: its server, the backend for it, and its bare client,
// which shows the cost of the service alone.
type service interface {
	facts() facts
	// start starts the server, which Close ends.
	start() error
	Close() error
	addr() string
	// open makes a backend for one candidate, with separate connections.
	open(ttl time.Duration) (seat, error)
	// connect connects a bare client.
	connect(ctx context.Context) (bare, error)
	// lock makes a contender that uses the client library's own lock with its defaults.
	lock(path string, ttl time.Duration) (*lock, error)
	// together connects users of the client library's own election, of one session.
	together(ctx context.Context, ttl time.Duration) (together, error)
	// sent returns what the candidates have sent so far.
	sent() sent
	// messages returns how many messages the candidates have sent and received since the last call, without
	// heartbeats.
	messages() (int, error)
}

// A site is what all services have.
type site struct {
	*services.Cluster // nil in a child process
	cfg               config
}

func (s *site) addr() string {
	if s.Cluster == nil {
		return s.cfg.at
	}
	return s.Servers[0].Addr() // the agent beside a Consul cluster has room for few connections
}

// seat is a candidate's backend. release closes its connections when the candidate has closed.
type seat struct {
	backend backend.Backend
	release func()
}

// sent is what clients have sent.
type sent struct {
	requests   int // each has one reply, for which somebody may wait
	watches    int // requests whose reply is a change; watches that are no separate request do not count
	heartbeats int // not included in requests
}

// A bare client is the service's own client, used directly.
type bare interface {
	// create creates a key that remove deletes. rawEpoch outlives the client.
	create(ctx context.Context, key string) error
	remove(ctx context.Context, key string) error
	// watch watches an existing key. The channel gets the instant at which the watcher's goroutine has
	// received its deletion. The channel is closed after that, or if something else has happened.
	watch(ctx context.Context, key string) (<-chan time.Time, error)
	// claim writes rawEpoch and creates rawSeat in one transaction.
	claim(ctx context.Context) error
	// write checks that rawEpoch exists and writes it in one transaction.
	write(ctx context.Context) error
	// standing counts the users of the client library's own lock that have it or wait for it.
	standing(ctx context.Context, path string) (int, error)
	// end ends the session of a will whose process is dead.
	end(ctx context.Context, w backend.Will) error
	close()
}

// Keys of bare clients.
const (
	rawKey   = "/bench-raw"
	rawSeat  = "/bench-raw-seat"
	rawEpoch = "/bench-raw-epoch"
)

// traffic counts what clients send and receive.
type traffic struct {
	requests, watches, heartbeats atomic.Int64
	all                           atomic.Int64 // messages except heartbeats
	last                          int64        // value of all
}

func (t *traffic) sent() sent {
	return sent{int(t.requests.Load()), int(t.watches.Load()), int(t.heartbeats.Load())}
}

func (t *traffic) messages() (int, error) {
	last := t.last
	t.last = t.all.Load()
	return int(t.last - last), nil
}

// fires returns a channel that gets the instant at which wait has returned, if wait reports a deletion.
func fires(wait func() (deleted bool)) <-chan time.Time {
	fired := make(chan time.Time, 1)
	go func() {
		defer close(fired)
		if wait() {
			fired <- time.Now()
		}
	}()
	return fired
}

// facts are what the printed method says about a service.
type facts struct {
	title    string
	plain    string        // the client library's name for its own lock or election
	together string        // and for those of one session
	n        []int         // default numbers of candidates
	seats    []int         // default numbers of elections of one process
	limits   string        // of connections, that the server has by default and for the part seats only
	files    int           // open files per candidate
	minTTL   time.Duration // of a session
	raw      string        // what the raw limit consists of
	clients  string        // what a candidate connects with
	messages string        // what counts as a message, and where
	sync     string        // how the server's disk affects the results
	crashes  []crashKind   // the kinds of sessions for a crashed leader, the shortest last
	expiry   string        // when the service ends the session of a silent client
	ends     string        // how the bare client ends another client's session
}

// syncing describes how the server's disk affects the results. This setting stops the server from syncing.
func (c config) syncing(setting string) string {
	if c.fsync {
		return "The server syncs its log to disk before it answers."
	}
	return "The server does not sync its log (" + setting + "): a sync would add its time to both sides of every ratio and hide the difference."
}

// A crashKind is a kind of session, given by the parameters of a URL.
type crashKind struct{ name, parameters string }

// A kind is a service that -backend can name.
type kind struct {
	services.Service
	make func(cfg config) service
}

var kinds = []kind{
	{services.ZooKeeper, newZooKeeper},
	{services.Etcd, newEtcd},
	{services.Consul, newConsul},
}
