package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/services"
)

// A service is a coordination service to measure on: its server, the backend for it,
// and its bare client, which shows what the service by itself takes.
type service interface {
	facts() facts
	// start starts the server, which Close ends.
	start() error
	Close() error
	addr() string
	// open makes a backend for one candidate, with connections of its own.
	open(ttl time.Duration) (seat, error)
	// connect connects a bare client.
	connect(ctx context.Context) (bare, error)
	// lock makes a contender that uses the client library's own lock with its defaults.
	lock(path string, ttl time.Duration) (*lock, error)
	// sent tells what the candidates have sent so far.
	sent() sent
	// messages returns how many messages the candidates have sent and received since
	// the last call, heartbeats left out.
	messages() (int, error)
}

// A site is what all services have.
type site struct {
	*services.Cluster // nil in a process of its own that is measured, whose traffic is not counted
	cfg               config
}

func (s *site) addr() string {
	if s.Cluster == nil {
		return s.cfg.at
	}
	return s.Servers[0].Addr() // the agent beside a cluster of Consul's has room for few connections
}

// seat is what a candidate sits on. release gives its connections up when the candidate has closed.
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
	// create makes what remove deletes. rawEpoch outlives the client.
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
	// standing counts the users of the client library's own lock that have it or wait for it.
	standing(ctx context.Context, path string) (int, error)
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

// traffic counts what clients send and receive.
type traffic struct {
	requests, watches, heartbeats atomic.Int64
	all                           atomic.Int64 // messages, of which heartbeats are none
	last                          int64        // of all
}

func (t *traffic) sent() sent {
	return sent{int(t.requests.Load()), int(t.watches.Load()), int(t.heartbeats.Load())}
}

func (t *traffic) messages() (int, error) {
	last := t.last
	t.last = t.all.Load()
	return int(t.last - last), nil
}

// fires returns a channel that gets the instant at which wait has returned, if it says that it has
// waited for a deletion.
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

// facts are what the printed method says of a service.
type facts struct {
	title    string
	plain    string        // what the client library calls its own lock or election
	n        []int         // numbers of candidates if none are asked for
	files    int           // open files of a candidate
	minTTL   time.Duration // of a session
	raw      string        // what the raw limit consists in
	clients  string        // what a candidate connects with
	messages string        // what is counted as one, and where
	sync     string        // what the server's disk has to do with it
	crashes  []crashKind   // the kinds of sessions that a crashed leader may have had, the shortest last
	expiry   string        // when the service ends the session of one who is silent
	ends     string        // how the bare client ends a session that is another's
}

// syncing says what the server's disk has to do with it, if it does not sync by this setting.
func (c config) syncing(setting string) string {
	if c.fsync {
		return "The server syncs its log to disk before it answers."
	}
	return "The server does not sync its log (" + setting + "): a sync would add its time to both sides of every ratio and hide the difference."
}

// A crashKind is a kind of session, by the parameters of a URL.
type crashKind struct{ name, parameters string }

// A kind of service is one that -backend names.
type kind struct {
	name, scheme string
	make         func(cfg config) service
}

var kinds = []kind{
	{"zookeeper", "zk", newZooKeeper},
	{"etcd", "etcd", newEtcd},
	{"consul", "consul", newConsul},
}
