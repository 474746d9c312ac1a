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

// lines are a Backend's connections for heartbeats. One member must answer both requests of a heartbeat
// (see session.beat), but the client uses its members in turn. So if it has several endpoints there is
// a connection to one of them, which all sessions share. A session that is not served there moves to
// the next endpoint by itself: the trouble may be its own.
type lines struct {
	client *clientv3.Client

	mu   sync.Mutex
	open []*line
	best string // the endpoint to begin with, or to move to
}

// A line is a connection to one endpoint. It is closed when no session uses it any more, and with the
// client.
type line struct {
	endpoint string // "" for the client's own connection
	conn     *grpc.ClientConn
	users    int // guarded by lines.mu
	stop     func() bool
	answered atomic.Bool // it has confirmed a heartbeat
}

// choose returns the line for a session's next heartbeat: its current one, unless that has failed, or
// its endpoint is none of the client's any more. If choose returns another line, the session leaves its
// current one.
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

// fits reports whether a client with these endpoints may use this line.
func (o *line) fits(endpoints []string) bool {
	if len(endpoints) < 2 {
		return o.endpoint == ""
	}
	return slices.Contains(endpoints, o.endpoint)
}

// isNew reports whether a connection for heartbeats has answered nobody yet.
func (o *line) isNew() bool { return o != nil && o.endpoint != "" && !o.answered.Load() }

// leave releases a line that a session no longer uses. Without a line it does nothing.
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
		_ = o.conn.Close() // nobody can use it any more
	}
}
