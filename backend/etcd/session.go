package etcd

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector/backend/driver"
)

// marginPart is the part of the granted timeout that the trust window leaves out.
const marginPart = 8

var (
	errClientClosed = errors.New("the client is closed")
	errExpired      = errors.New("the lease has expired or was revoked")
	errRewound      = errors.New("the history is not that of the session: the service was restored from a backup, or another one is at its address")
	errElsewhere    = errors.New("the lease was renewed by another member than the one that a quorum has confirmed")
	errNotConfirmed = errors.New("the server did not confirm: entries stay until the lease expires")
)

// A session is one lease.
type session struct {
	driver.Life
	client  *clientv3.Client
	cfg     *Config
	lease   clientv3.LeaseID
	cluster uint64

	keeper keeper // the heartbeat's

	newest        atomic.Int64 // the highest revision in any reply
	shown         atomic.Int64 // the highest revision of what a caller was given
	learned       learned
	past          driver.Past               // by key
	written, held atomic.Pointer[lastWrite] // its last write, and its last one with its lease, or nil
	broken        atomic.Bool               // the client's connection broke since the session was opened

	reads  driver.Together[*reading]
	writes driver.Together[*writing]
	alone  chan struct{} // holds one for each commit on its way that goes by itself

	streams streams
	watches registry
}

// start makes the session of a lease that was requested at sent.
func (b *Backend) start(lease *clientv3.LeaseGrantResponse, sent time.Time) *session {
	s := &session{client: b.client, cfg: &b.cfg, lease: lease.ID, cluster: lease.ResponseHeader.GetClusterId()}
	s.Init(driver.LifeOptions{
		Name: "etcd", Logger: b.cfg.Logger, Unconfirmed: errNotConfirmed, Remove: s.drop,
		End: s.end, Ended: func() { s.keeper.end(); b.reconnects.remove(s) },
	})
	b.reconnects.add(b.client, s) // before the session can end, which removes it
	s.saw(lease.ResponseHeader.GetRevision())
	s.streams.since = time.Now()
	s.streams.renew(s.Ctx, 0)
	s.alone = make(chan struct{}, mostAlone)
	s.reads.Take, s.reads.Send = s.takeReads, s.sendReads
	s.reads.Run, s.writes.Run = s.Run, s.Run
	s.writes.Take, s.writes.Send = s.takeWrites, s.sendWrites
	s.watches.s, s.watches.byKey = s, make(map[string][]*watch)
	s.watches.dirs, s.watches.below = make(map[string]int), make(map[string]int)
	s.keeper = keeper{s: s, lines: &b.lines, last: sent}
	s.keeper.begin()
	ttl := time.Duration(lease.TTL) * time.Second
	s.Grant(formatSession(lease.ID), sent, ttl, ttl/marginPart)
	s.BeatBy(s.interval(), s.beat) // the grant was the first renewal

	// A closed client gets no replies any more.
	stop := context.AfterFunc(b.client.Ctx(), func() { s.Lose(errClientClosed) })
	context.AfterFunc(s.Ctx, func() { stop() })
	return s
}

// saw notes the revision of a reply.
func (s *session) saw(rev int64) { raise(&s.newest, rev) }

// shows notes the revision of what a caller is given.
func (s *session) shows(rev int64) { raise(&s.shown, rev) }

func raise(to *atomic.Int64, rev int64) {
	for {
		have := to.Load()
		if rev <= have || to.CompareAndSwap(have, rev) {
			return
		}
	}
}

// checkLease asks whether the lease exists, to distinguish a session that has ended from entries that
// were deleted.
func (s *session) checkLease(ctx context.Context) error {
	answer, err := try(ctx, s, func(ctx context.Context) (*clientv3.LeaseTimeToLiveResponse, error) {
		return s.client.Lease.TimeToLive(ctx, s.lease)
	})
	if err == nil && answer.TTL < 0 { // 0 is less than a second
		err = s.LostBy(errExpired)
	}
	return err
}

// end revokes the lease if that is of use, so that the entries go at once.
func (s *session) end(ctx context.Context, cause error) {
	switch cause {
	case errExpired:
		s.Confirm()
		return
	case errClientClosed:
		s.Unconfirmed(cause)
		return
	}
	for pause := (driver.Pause{}); ; {
		if revoke(ctx, s.client, s.lease) == nil {
			s.Confirm()
			return
		}
		if !pause.Wait(ctx) {
			return
		}
	}
}

// revoke revokes a lease, and returns nil if the lease is known to be gone. Without a reply it asks
// other members, too: a member may be slow, or frozen while its link looks well.
func revoke(ctx context.Context, client *clientv3.Client, lease clientv3.LeaseID) error {
	ctx, cancel := context.WithTimeout(ctx, driver.EndGrace)
	defer cancel()
	_, err := ask(ctx, 1, driver.EndGrace/4, func(ctx context.Context) (*clientv3.LeaseRevokeResponse, error) {
		answer, err := client.Lease.Revoke(ctx, lease)
		if err == nil {
			err = whole(answer.Header, 0, 0)
		}
		return answer, err
	})
	if err != nil && is(err, rpctypes.ErrLeaseNotFound) {
		return nil
	}
	return err
}
