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

// beat sends a heartbeat, which renews the lease and moves the trust window, and returns the time until the next
// one: a quarter of the timeout, and maxInterval at most.
//
// A heartbeat is two requests to ONE member: a linearizable read of the members, and then the renewal. A
// member that was deposed, but does not know it, answers a renewal by itself; a quorum has to confirm the
// read. So the leader that renewed the lease had no successor when the heartbeat was sent, or its successor
// counts from then or later: DESIGN.md, "The window", has the proof. It needs the stream for the renewal to
// be opened before the read is sent. The margin is left for clocks that differ in rate, and, with the
// servers' checkpoints of leases, for what behind does not leave out.
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
