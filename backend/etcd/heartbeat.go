package etcd

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/elector-go/elector/backend"
)

// beat renews the lease every quarter of the timeout and moves the trust window,
// until the session is over.
//
// The leader of the cluster counts leases, by its own clock, and a renewal goes
// through no quorum: a member that still takes itself for the leader renews leases
// which its successor lets expire. It may do so for up to twice the election timeout
// while it is cut off, and, where it was paused, for as long again after that. When a
// member becomes the leader it gives all leases their whole timeout (and an election
// timeout more). So a renewal can be trusted if the member that did it had no successor
// yet. A round is two requests, both sent at sent or later:
//
//	list   a linearizable read of the members (any client may read that). A quorum has
//	       confirmed its leader, of some term, after sent. The answer bears the term of
//	       the member that answers, which is that term or a later one.
//	renew  the renewal. Its answer bears the term that the member had before it passed
//	       the request on to the leader that it knew, which is of that term or later.
//
// If the term of renew is not below that of list, the lease was renewed by a leader
// whose term is not below that of the one which the quorum has confirmed. A leader of
// a later term needs the votes of a quorum, hence of one that has confirmed the other
// after sent: it was elected after sent, and gave the lease the whole timeout then. So
// whoever counts the lease, counts from sent or later. If the terms are the
// other way round, there has just been a change of leaders, or the member that renewed is
// behind in what it has applied, and the round is repeated.
//
// Checkpoints of leases (--feature-gates=LeaseCheckpoint=true), by which a new leader goes on
// with what was left, are made only of leases that have had no renewal for five minutes. A
// renewal cancels them, by way of a quorum, before it is answered. One that overtook the
// renewal would be wrong, hence maxInterval. Servers that restart begin
// with the whole timeout. What is left to the margin are clocks that differ in rate.
//
// What no heartbeat can rule out is in the package's comment: a deposed leader's own
// requests to end leases, which it passes on to its successor when it wakes.
//
// Each round has a goroutine of its own, of which there is one at a time and none in
// between: see schedule.
func (s *session) beat() {
	s.mu.Lock()
	if s.state == backend.Lost || s.beating {
		s.mu.Unlock()
		return
	}
	s.beating, s.due = true, false
	s.calls.Add(1)
	s.mu.Unlock()
	defer s.calls.Done()
	s.schedule(s.heartbeat())
}

// heartbeat does one round and returns when the next one is due.
func (s *session) heartbeat() time.Duration {
	interval := s.interval()
	err := s.keeper.round(interval / 2)
	switch {
	case err == nil:
		s.become(backend.Live)
		return interval
	case is(err, rpctypes.ErrLeaseNotFound):
		s.lose(errExpired)
	default:
		s.cfg.Logger.Debug("etcd: no heartbeat", "session", s.id, "error", err)
		s.become(backend.Suspended)
		s.streams.suspect(s)
	}
	return min(interval/10, time.Second/4)
}

// schedule ends a round and has the next one begin after a time, or at once if somebody
// has asked for it meanwhile.
func (s *session) schedule(next time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beating = false
	switch {
	case s.state == backend.Lost:
	case s.due:
		s.timer.Reset(0)
	default:
		s.timer.Reset(next)
	}
}

// maxInterval is the longest time between two heartbeats: well below what a lease may
// go without a renewal before it is checkpointed.
const maxInterval = time.Minute

func (s *session) interval() time.Duration { return min(s.ttl/4, maxInterval) }

// poke has a heartbeat sent now: a call has not got through.
func (s *session) poke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due = true
	if s.state != backend.Lost && !s.beating {
		s.timer.Reset(0)
	}
}

// A keeper is a stream of renewals. The client's own KeepAlive does not tell when a
// request was sent, and its KeepAliveOnce spins while no server can be reached. Leases are
// the same in all namespaces of a client, so that its connection may be used.
type keeper struct {
	s      *session
	stream pb.Lease_LeaseKeepAliveClient
	cancel context.CancelFunc
}

func (k *keeper) close() {
	if k.stream != nil {
		k.cancel()
		k.stream = nil
	}
}

// round is one heartbeat, repeated until it is confirmed. Each request has the given
// time: the client sends the next one to the next member, but for those that follow on
// a stream that works.
func (k *keeper) round(patience time.Duration) error {
	for p, began := newPause(), time.Now(); ; {
		sent := time.Now()
		term, err := k.confirmed(patience)
		if err != nil {
			return err
		}
		renewed, err := k.renew(patience)
		if err != nil {
			k.close()
			return err
		}
		if renewed >= term {
			k.s.window.Extend(sent)
			return nil
		}
		k.close() // the next renewal goes to the next member: this one may be far behind
		if time.Since(began) > patience {
			return errBehind
		}
		p.wait(k.s.ctx)
	}
}

// confirmed does a linearizable read and returns the term that the answer bears.
func (k *keeper) confirmed(patience time.Duration) (term uint64, err error) {
	ctx, cancel := context.WithTimeout(k.s.ctx, patience)
	defer cancel()
	list, err := k.s.client.Cluster.MemberList(ctx)
	if err != nil {
		return 0, err
	}
	return list.Header.GetRaftTerm(), nil
}

// renew renews the lease and returns the term that the answer bears.
func (k *keeper) renew(patience time.Duration) (term uint64, err error) {
	ctx, cancel := context.WithTimeout(k.s.ctx, patience)
	defer cancel()
	if k.stream == nil {
		streaming, cancel := context.WithCancel(clientv3.WithRequireLeader(k.s.ctx))
		defer context.AfterFunc(ctx, cancel)() // opening may block, too
		stream, err := pb.NewLeaseClient(k.s.client.ActiveConnection()).LeaseKeepAlive(streaming)
		if err != nil {
			cancel()
			return 0, rpctypes.Error(err)
		}
		k.stream, k.cancel = stream, cancel
	}
	defer context.AfterFunc(ctx, k.cancel)()
	if err := k.stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(k.s.lease)}); err != nil {
		return 0, fmt.Errorf("send: %w", err)
	}
	answer, err := k.stream.Recv()
	if err != nil {
		return 0, rpctypes.Error(err)
	}
	if answer.TTL <= 0 {
		return 0, rpctypes.ErrLeaseNotFound
	}
	k.s.saw(answer.Header.GetRevision())
	return answer.Header.GetRaftTerm(), nil
}

// A pause is the time between two tries: it grows, at random.
type pause struct{ next time.Duration }

const (
	minPause = 20 * time.Millisecond
	maxPause = 500 * time.Millisecond
)

func newPause() *pause { return &pause{minPause} }

// wait returns false if ctx ends first.
func (p *pause) wait(ctx context.Context) bool {
	timer := time.NewTimer(p.next/2 + rand.N(p.next))
	defer timer.Stop()
	p.next = min(2*p.next, maxPause)
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
