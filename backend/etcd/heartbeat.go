package etcd

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/connectivity"

	"github.com/elector-go/elector/backend/driver"
)

// beat renews the lease every quarter of the timeout, and every maxInterval at least, and moves the
// trust window, until the session is over.
//
// The leader of the cluster counts leases by its own clock, and a renewal goes through no
// quorum: a member that wrongly believes that it leads renews leases which its successor lets
// expire. It may do so for up to twice the election timeout while it is cut off, and, if it was
// paused, for as long again after that. A member that becomes the leader gives all leases their
// whole timeout (and an election timeout more). So a renewal can be trusted if the leader that
// did it had no successor yet. A heartbeat is two requests to ONE member m, both sent at sent or
// later, the second after the reply to the first:
//
//	read   a linearizable read of the members (any client may read that)
//	renew  the renewal
//
// Let T be the term of the leader that has confirmed the read. The premises, in the words
// of the server's source:
//
//  1. A read is answered upon a ReadIndex that m has sent after the read had come. By
//     then a quorum has told the leader of T, after sent, that it follows it. So a leader of
//     a later term, which needs the votes of a quorum, was elected after sent.
//  2. m has that leader's reply in a message of term T, and raft drops messages of a lower
//     term than its own. So m's raft is in T or a later term, and stays so.
//  3. m's server learns its raft's leader before it learns which reads are confirmed, and in
//     the same order (updateLead, then ReadStates). So from then on the leader that it knows
//     leads, or has led, in T or a later term.
//  4. m passes a renewal on to the leader that it knows, or does it itself if that is m.
//  5. An elected leader gives all leases their whole timeout before it counts them.
//
// So the lease was renewed, after sent, by the leader of T or by the leader of a later term. If no
// leader of a later term was elected, the leader of T counts the lease, and has renewed it. If one
// was elected, that was after sent by 1, and it has given the lease the whole timeout by 5. Either
// counts from sent or later.
//
// The member's ID in both replies shows that one member has answered both. It must not have been
// restarted in between, as 2 holds for what its raft has in memory: so the stream for the renewal
// is opened before the read is sent. The terms in the replies prove nothing. They are the terms of
// the last entry that a member has applied one by one: a member that has caught up by a snapshot
// reports an older one until the next entry.
//
// Checkpoints of leases (--feature-gates=LeaseCheckpoint=true), by which a new leader continues with
// the remaining time, break the fifth premise. A lease of more than five minutes is checkpointed five
// minutes after its grant, and again and again, however often it is renewed: with the time that
// remained then, counted from the last renewal. The next renewal takes the checkpoint back, through a
// quorum. But a renewal that overtakes the checkpoint does not, nor does one by a leader that is
// deposed in that instant. The next leader then counts, from sent or later, the timeout minus the time
// that had passed since the renewal before. The window leaves out what the margin does not cover of
// that: see behind. As a rule the margin covers it, hence maxInterval.
//
// The margin is left for clocks that differ in rate.
//
// The package's comment has what no heartbeat can rule out: a deposed leader's own requests to end
// leases, which it passes on to its successor when it wakes.
//
// beat does one round, and returns the time until the next one.
func (s *session) beat() time.Duration {
	interval, began := s.interval(), time.Now()
	err := s.keeper.round()
	switch {
	case err == nil:
		s.Resume()
		s.streams.listen(s)
		// The window moves by when this round was sent, however long its replies took.
		return max(interval-time.Since(began), interval/4)
	case is(err, rpctypes.ErrLeaseNotFound):
		s.Lose(errExpired)
	case errors.Is(err, errRewound):
		s.Lose(errRewound)
	default:
		s.Suspend(err)
		s.streams.suspect(s)
	}
	return min(interval/10, time.Second/4)
}

// maxInterval is the longest time between two heartbeats: with it, the window of a lease that may be
// checkpointed leaves nothing out.
const maxInterval = checkpointed / 10

// checkpointed is the longest timeout with which a lease is never checkpointed.
const checkpointed = 5 * time.Minute

// behind is how long before it was sent a renewal counts from, as a checkpoint may have been made since
// the renewal before. A part of the margin is left for the clocks.
func behind(ttl, since time.Duration) time.Duration {
	if ttl <= checkpointed {
		return 0
	}
	return max(0, since-ttl/10)
}

func (s *session) interval() time.Duration { return min(s.TTL()/4, maxInterval) }

// A keeper sends heartbeats. The client's KeepAlive does not report when a request was sent, and its
// KeepAliveOnce spins while no server can be reached. Leases and members are the same in all namespaces
// of a client, so the keeper may use its connection.
type keeper struct {
	s       *session
	lines   *lines
	line    *line         // nil before the first heartbeat
	failed  bool          // the line has failed
	young   []*line       // lines that have failed once, kept until a heartbeat is confirmed
	slow    bool          // the last heartbeat was not confirmed in time
	last    time.Time     // when the last confirmed one, or the grant, was sent
	took    time.Duration // how long the slower step of the last confirmed one took
	stream  pb.Lease_LeaseKeepAliveClient
	cancel  context.CancelFunc
	checked bool // the history is the session's, checked since the stream was opened
	again   bool // that was checked for an earlier stream
}

// hangUp ends the stream. The next one is opened when it is needed.
func (k *keeper) hangUp() {
	if k.stream != nil {
		k.cancel()
		k.stream = nil
	}
}

// end releases the lines of a session that is over, and sends no more heartbeats.
func (k *keeper) end() {
	k.hangUp()
	k.lines.leave(k.line)
	k.leaveYoung()
}

// begin starts to connect the first line, as the first heartbeat is a while away.
func (k *keeper) begin() {
	if k.next() == nil { // else the heartbeat meets the error, too
		k.line.conn.Connect()
	}
}

// next provides a line for the next heartbeat. A line that has failed is left, with one exception:
// connecting may take longer than a heartbeat may. So a line on which no heartbeat was answered yet is
// kept, and closed when it fails for the second time.
func (k *keeper) next() error {
	has := k.line
	line, err := k.lines.choose(has, k.failed)
	if err != nil {
		return err
	}
	k.line = line
	if line == has {
		return nil
	}
	at := slices.Index(k.young, has)
	switch {
	case k.failed && at < 0 && has.isNew() && has.conn.GetState() != connectivity.TransientFailure:
		k.young = append(k.young, has)
		return nil
	case at >= 0:
		k.young = slices.Delete(k.young, at, at+1)
		k.lines.leave(has)
	}
	k.lines.leave(has)
	return nil
}

func (k *keeper) leaveYoung() {
	for _, o := range k.young {
		k.lines.leave(o)
	}
	k.young = nil
}

// patience is how long a step of a heartbeat may take. The first member that does not answer may be
// frozen, so it is left soon. If another one does not answer either, they may only be slow; but half of
// the remaining window is for the others. On a link with slow replies no line is left before a reply
// can arrive, even on a new connection.
func (k *keeper) patience() time.Duration {
	interval := k.s.interval()
	p := interval / 2
	if k.slow {
		p = max(interval/8, time.Until(k.s.Deadline())/2)
	}
	return min(interval, max(p, 3*k.took))
}

// round is one heartbeat, tried again for a while, at the next member, until it is confirmed.
func (k *keeper) round() error {
	for pause, began := (driver.Pause{}), time.Now(); ; {
		sent, patience := time.Now(), k.patience()
		err := k.exchange(patience)
		if err == nil {
			k.slow = false
			k.s.Extend(sent.Add(-behind(k.s.TTL(), time.Since(k.last))))
			k.last = sent
			return nil
		}
		k.hangUp() // the token with which the stream was opened may have run out
		late := time.Since(began) > patience
		k.slow = k.slow || late
		// Another member would refuse it, too; and behind an address that serves several members, the
		// next try may meet the same one twice.
		k.failed = !isForbidden(err) && (late || !errors.Is(err, errElsewhere))
		if late || is(err, rpctypes.ErrLeaseNotFound) || errors.Is(err, errRewound) || !pause.Wait(k.s.Ctx) {
			return err
		}
	}
}

// exchange does the two requests of a heartbeat. It returns nil if one member has answered both. After
// the first heartbeat on a stream it checks that the history is the session's: see history.go.
func (k *keeper) exchange(patience time.Duration) error {
	if err := k.next(); err != nil {
		return err
	}
	k.failed = false
	began, newest := time.Now(), k.s.newest.Load()
	member, err := k.confirmed(patience)
	if err != nil {
		return err
	}
	read := time.Now()
	intact, known := true, true
	var checking sync.WaitGroup
	if !k.checked { // beside the renewal: the link may be slow
		checking.Go(func() { intact, known = k.s.checkHistory(newest, patience) })
	}
	err = k.renew(patience, member)
	took := max(read.Sub(began), time.Since(read))
	checking.Wait()
	switch {
	case err != nil:
		return err
	case !intact:
		return errRewound
	case known && !k.checked && (k.again || k.s.broken.Load()):
		k.s.streams.remake(k.s)
		k.s.Run(k.s.lookBack)
	}
	k.checked, k.again, k.took = known, true, took
	k.line.answered.Store(true)
	k.leaveYoung()
	return nil
}

// confirmed opens the stream if there is none, does a linearizable read, and returns the member that
// has answered.
func (k *keeper) confirmed(patience time.Duration) (member uint64, err error) {
	ctx, cancel := context.WithTimeout(k.s.Ctx, patience)
	defer cancel()
	if k.stream == nil {
		k.checked = false
		streaming, cancel := context.WithCancel(clientv3.WithRequireLeader(k.s.Ctx))
		defer context.AfterFunc(ctx, cancel)() // opening may block, too
		stream, err := pb.NewLeaseClient(k.line.conn).LeaseKeepAlive(streaming)
		if err != nil {
			cancel()
			return 0, rpctypes.Error(err)
		}
		k.stream, k.cancel = stream, cancel
	}
	list, err := pb.NewClusterClient(k.line.conn).MemberList(ctx, &pb.MemberListRequest{Linearizable: true})
	if err != nil {
		return 0, rpctypes.Error(err)
	}
	if list.Header.GetClusterId() != k.s.cluster && list.Header.GetClusterId() != 0 {
		return 0, errRewound
	}
	return list.Header.GetMemberId(), nil
}

// renew renews the lease. The error is errElsewhere if a member other than the given one has answered:
// it may wrongly believe that it leads, so its reply proves nothing.
func (k *keeper) renew(patience time.Duration, member uint64) error {
	ctx, cancel := context.WithTimeout(k.s.Ctx, patience)
	defer cancel()
	defer context.AfterFunc(ctx, k.cancel)()
	// EOF says that the stream has ended, and Recv says why.
	if err := k.stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(k.s.lease)}); err != nil && !errors.Is(err, io.EOF) {
		return rpctypes.Error(err)
	}
	answer, err := k.stream.Recv()
	switch {
	case err != nil:
		return rpctypes.Error(err)
	case answer.Header.GetMemberId() != member || member == 0:
		return errElsewhere
	case answer.TTL <= 0:
		return rpctypes.ErrLeaseNotFound
	}
	k.s.saw(answer.Header.GetRevision())
	return nil
}
