package simulate

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/cmd/elector/internal/report"
)

// A process is one candidate's backend: a memory.Client behind the server's model.
type process struct {
	*memory.Client
	server *server
	number int // the candidate's

	session *session // the last one; there is one at a time
}

// Open implements backend.Backend.
func (p *process) Open(ctx context.Context, o backend.OpenOptions) (*backend.Session, error) {
	inner, err := p.Client.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	p.session = &session{
		Session: inner, server: p.server, number: p.number,
		watches: make(map[watchKey]*watch), changed: make(chan struct{}), lost: make(chan struct{}),
	}
	return inner.Around(backend.DoneBy(p.session)), nil
}

// A session does what backend/zookeeper's does, in requests of the model.
type session struct {
	*backend.Session
	server *server
	number int

	lost chan struct{} // closed by Close, or once AwaitState has told of it, which each elector asks
	once sync.Once

	// Guarded by server.mu.
	watches map[watchKey]*watch // those that stand or have fired
	changed chan struct{}       // closed and made anew when a watch fires
	owned   []string            // its ephemeral entries
	listed  string              // the entry for which Predecessor has listed
	ended   bool                // the server has dropped it
}

// signal wakes who waits. Caller holds server.mu.
func (n *session) signal() {
	close(n.changed)
	n.changed = make(chan struct{})
}

func (n *session) AwaitState(ctx context.Context, prev backend.State) (backend.State, error) {
	state, err := n.Session.AwaitState(ctx, prev)
	if state == backend.Lost {
		n.once.Do(func() { close(n.lost) })
	}
	return state, err
}

func write(m report.Model) time.Duration { return m.Write }
func read(m report.Model) time.Duration  { return m.Read }

// listing is the cost of one listing as it is when the server's turn comes to be known:
// when the request arrives.
func (n *session) listing(ctx context.Context, dir string) func(report.Model) time.Duration {
	return func(m report.Model) time.Duration {
		now, err := n.Session.List(ctx, dir) // the keys are shared: it takes nothing
		if err != nil {
			return m.Read // and the reading itself tells the error
		}
		return listCost(m, len(now.Keys))
	}
}

func listCost(m report.Model, names int) time.Duration {
	return m.Read + time.Duration(float64(m.KiB)*float64(names)*nameSize/1024)
}

// asked makes one read at the server.
func asked[T any](n *session, cost func(report.Model) time.Duration, do func() (T, error)) (T, error) {
	v, err := n.server.serve(n.number, cost)
	if err != nil {
		var none T
		return none, err
	}
	defer v.done(report.Read)
	return do()
}

func (n *session) Get(ctx context.Context, key string) (backend.Entry, error) {
	return asked(n, read, func() (backend.Entry, error) { return n.Session.Get(ctx, key) })
}

func (n *session) Survey(ctx context.Context, key string, known func(backend.Entry) string) (e backend.Entry, strangers []string, err error) {
	e, err = asked(n, read, func() (e backend.Entry, err error) {
		e, strangers, err = n.Session.Survey(ctx, key, known)
		return e, err
	})
	return e, strangers, err
}

// Children is a read like any other: no candidate asks for them.
func (n *session) Children(ctx context.Context, key string, most int) (keys []string, more bool, err error) {
	keys, err = asked(n, read, func() (keys []string, err error) {
		keys, more, err = n.Session.Children(ctx, key, most)
		return keys, err
	})
	return keys, more, err
}

func (n *session) List(ctx context.Context, dir string) (backend.Listing, error) {
	n.server.waitAtGate()
	return asked(n, n.listing(ctx, dir), func() (backend.Listing, error) { return n.Session.List(ctx, dir) })
}

// Predecessor lists the first time; then it knows the names, and reads the entry before
// and its own, which leaves a watch on both, unless there is one.
func (n *session) Predecessor(ctx context.Context, e backend.Entry) (backend.Entry, error) {
	n.server.waitAtGate()
	n.server.mu.Lock()
	listed := n.listed == e.Key
	n.listed = e.Key
	n.server.mu.Unlock()
	if !listed {
		_, err := asked(n, n.listing(ctx, backend.Parent(e.Key)), func() (struct{}, error) { return struct{}{}, nil })
		if err != nil {
			return backend.Entry{}, err
		}
	}
	for {
		before, err := n.Session.Predecessor(ctx, e)
		if err != nil {
			return backend.Entry{}, err
		}
		if before.Exists() {
			now, err := n.now(ctx, before.Key)
			if err != nil {
				return backend.Entry{}, err
			}
			if before = now; !now.Exists() {
				continue
			}
		}
		own, err := n.now(ctx, e.Key)
		if err == nil && own.Rev != e.Rev {
			err = backend.ErrNoEntry
		}
		return before, err
	}
}

// now reads an entry, unless a watch shows it already.
func (n *session) now(ctx context.Context, key string) (backend.Entry, error) {
	now, err := n.Await(ctx, backend.Unknown(key))
	if err != nil {
		return backend.Entry{}, err
	}
	return now[0], nil
}

func (n *session) Commit(ctx context.Context, guards []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
	v, err := n.server.serve(n.number, write)
	if err != nil {
		return nil, err
	}
	made, err := n.Session.Commit(ctx, guards, ops...)
	if err != nil {
		v.done(report.Refused)
		return nil, err
	}
	n.server.mu.Lock()
	for i, op := range ops {
		if op.Ephemeral() {
			n.owned = append(n.owned, made[i].Key)
		}
		if op.Kind == backend.OpDelete {
			n.disown(op.Key)
		}
	}
	n.server.written(n, ops, made)
	n.server.mu.Unlock()
	v.done(report.Wrote)
	return made, nil
}

// disown forgets an entry, and tells whether it was this session's. Caller holds
// server.mu.
func (n *session) disown(key string) bool {
	for i, k := range n.owned {
		if k == key {
			n.owned = append(n.owned[:i], n.owned[i+1:]...)
			return true
		}
	}
	return false
}

func (n *session) Discard(ctx context.Context, e backend.Entry) error {
	v, err := n.server.serve(n.number, write)
	if err != nil {
		return err
	}
	defer v.done(report.Wrote)
	err = n.Session.Discard(ctx, e) // memory goes on by itself where ctx has ended
	n.server.mu.Lock()
	defer n.server.mu.Unlock()
	if n.disown(e.Key) {
		n.server.disappeared(n, e.Key)
	}
	return err
}

// Close ends the session at the server, too, unless it is over there.
func (n *session) Close(ctx context.Context) error {
	n.once.Do(func() { close(n.lost) })
	n.server.mu.Lock()
	ended := n.ended
	n.server.mu.Unlock()
	if ended {
		return n.Session.Close(ctx)
	}
	v, refused := n.server.serve(n.number, write)
	err := n.Session.Close(ctx)
	if refused != nil {
		return errors.Join(err, refused)
	}
	if err == nil {
		n.dropped()
	}
	v.done(report.Wrote)
	return err
}

// dropped is the end of the session at the server: its entries go, and its watches. The
// entries in the memory.Service have gone at this instant.
func (n *session) dropped() {
	s := n.server
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, w := range n.watches {
		s.unwatch(key, w)
	}
	clear(n.watches)
	for _, key := range n.owned {
		s.disappeared(nil, key)
	}
	n.owned, n.ended = nil, true
}
