package consul

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

var (
	errExpired      = errors.New("the servers do not know it any more")
	errUnread       = errors.New("the servers did not know it yet")
	errTampered     = errors.New("somebody has deleted or changed the keys of the session below " + slotDir + ", or restored the service from a backup")
	errNotConfirmed = errors.New("the servers did not confirm: entries stay until the session times out, which takes up to twice its TTL")
)

// maxRequests is how many requests of a session are pending at once, besides heartbeats and waits, and maxReads how many
// of them may be reads. Without a limit a thousand elections would take a thousand connections to begin, and make as
// many slots.
const maxRequests, maxReads = 32, 24

// A session is one Consul session. Its commits take no turns: slots keep them apart.
type session struct {
	driver.Life
	b        *Backend
	lease    lease
	patience time.Duration // for one request
	requests chan struct{} // one for each that is pending
	reads    chan struct{} // one for each of them that is a read
	commits  chan struct{} // one for each that has a slot

	slots   slots
	learned learned
	watches registry
}

func newSession(b *Backend, id string, l lease, sent time.Time) *session {
	s := &session{b: b, lease: l, patience: l.patience()}
	s.requests, s.reads, s.commits = make(chan struct{}, maxRequests), make(chan struct{}, maxReads), make(chan struct{}, maxRequests)
	s.Init(driver.LifeOptions{Name: "consul", Logger: b.cfg.Logger, End: s.end, Unconfirmed: errNotConfirmed, Remove: s.drop})
	s.watches.s, s.watches.watches = s, make(map[watchKey]*watch)
	s.Grant(id, sent, l.ttl, l.margin())
	at := &beats{renewed: sent, looked: sent}
	s.BeatBy(l.every(), func() time.Duration { return s.beat(at) })
	return s
}

// end ends the session at the servers, so that its entries go at once.
func (s *session) end(ctx context.Context, _ error) {
	s.watches.close()
	removed := make(chan error, 1)
	go func() { removed <- s.b.deregister(ctx, s.lease) }() // the agent may be reachable without the servers
	if err := s.b.destroy(ctx, s.ID(), s.lease); err != nil {
		s.Unconfirmed(err)
	} else {
		s.Confirm()
	}
	if err := <-removed; err != nil {
		s.b.cfg.Logger.Debug("consul: the health check of a session stays until the agent removes it", "session", s.ID(), "error", err)
	}
}

// destroy ends a session at the servers, or finds that it no longer exists. As for a renewal, only a
// consistent read shows that: a leader that has not yet read of the session also replies that it has
// ended it.
func (b *Backend) destroy(ctx context.Context, id string, l lease) error {
	var denied driver.Bout
	for pause := (driver.Pause{}); ; {
		_, err := bounded(ctx, l.patience(), func(ctx context.Context) (*api.WriteMeta, error) {
			return b.client.Session().Destroy(id, new(api.WriteOptions).WithContext(ctx))
		})
		if err == nil {
			var left *api.SessionEntry
			left, err = bounded(ctx, l.patience(), func(ctx context.Context) (*api.SessionEntry, error) { return b.read(ctx, id) })
			if left != nil {
				err = errUnread
			}
		}
		if !transient(err) || forbidden(err) && denied.Over(refusedFor(l.ttl)) {
			return err
		}
		backend.Tried(ctx, err)
		if !pause.Wait(ctx) {
			return err
		}
	}
}
