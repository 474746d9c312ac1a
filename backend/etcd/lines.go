package etcd

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// lines are a Backend's connections for heartbeats. Both requests of a heartbeat have to
// be answered by one member (see session.beat), and the client gives its members turns. So
// where it has several endpoints there is a connection to one of them, which all sessions
// share. A session that is not served there goes on with the next endpoint, by itself: what
// one meets may be its own trouble.
type lines struct {
	client *clientv3.Client

	mu   sync.Mutex
	open []*line
	best string // the endpoint to begin with, or to go on with
}

// A line is a connection to one endpoint. It is closed when no session uses it any more,
// and with the client.
type line struct {
	endpoint string // "" for the client's own connection
	conn     *grpc.ClientConn
	users    int // guarded by lines.mu
	stop     func() bool
	answered atomic.Bool // a heartbeat was confirmed by it
}

// choose returns the line for a session's next heartbeat: the one that it has, unless that
// has failed, or is to none of the client's endpoints any more. The session leaves the one
// that it has, if it is given another.
func (l *lines) choose(has *line, failed bool) (*line, error) {
	endpoints := l.client.Endpoints()
	if has != nil && !failed && has.fits(endpoints) {
		return has, nil
	}
	if len(endpoints) < 2 {
		return &line{conn: l.client.ActiveConnection()}, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at := slices.Index(endpoints, l.best)
	switch {
	case at < 0:
		at = rand.N(len(endpoints))
	case failed && has != nil && has.endpoint == l.best:
		at = (at + 1) % len(endpoints)
	}
	l.best = endpoints[at]
	if i := slices.IndexFunc(l.open, func(o *line) bool { return o.endpoint == l.best }); i >= 0 {
		if l.open[i] != has {
			l.open[i].users++
		}
		return l.open[i], nil
	}
	conn, err := l.client.Dial(l.best)
	if err != nil {
		l.best = endpoints[(at+1)%len(endpoints)]
		return nil, err
	}
	o := &line{endpoint: l.best, conn: conn, users: 1}
	o.stop = context.AfterFunc(l.client.Ctx(), func() { _ = conn.Close() })
	l.open = append(l.open, o)
	return o, nil
}

// fits tells whether this is a line that a client with these endpoints may have.
func (o *line) fits(endpoints []string) bool {
	if len(endpoints) < 2 {
		return o.endpoint == ""
	}
	return slices.Contains(endpoints, o.endpoint)
}

// isNew tells whether nobody was answered yet by a connection for heartbeats.
func (o *line) isNew() bool { return o != nil && o.endpoint != "" && !o.answered.Load() }

// leave is for a session that does not use a line any more. Without a line it does nothing.
func (l *lines) leave(o *line) {
	if o == nil || o.endpoint == "" {
		return
	}
	l.mu.Lock()
	o.users--
	last := o.users == 0
	if last {
		l.open = slices.DeleteFunc(l.open, func(other *line) bool { return other == o })
	}
	l.mu.Unlock()
	if last && o.stop() {
		_ = o.conn.Close() // it is of no use to anybody
	}
}
