package etcd

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"
)

// streams decides which stream a session's watches use. The client has one for all watches whose
// context has the same metadata, and keeps it for as long as its link looks well, even if the member at
// the other end is frozen. So when a heartbeat fails the stream is asked for its progress, and if
// neither that nor a new watch is answered in time, all watches are made again on another stream, which
// goes to the next member.
//
// There are few streams, used in turn. The client does not end a stream on which a watch was given up
// before it was made (client/v3 3.7.3): it makes that stream again for as long as the client exists,
// and ends it only with the next watch that is made on it.
type streams struct {
	mu     sync.Mutex
	number int
	ctx    context.Context // ends when there is another stream
	cancel context.CancelFunc

	heard   atomic.Int64 // counts what has arrived over any stream
	watches atomic.Int64 // that exist
	made    atomic.Int64 // when the last one was made, in nanoseconds since since
	since   time.Time
	asking  atomic.Bool

	key atomic.Pointer[string] // of the last watch: it may be read

	// The heartbeat's: see listen.
	last   int64       // heard at the heartbeat before
	silent int         // heartbeats since anything has arrived
	newest int64       // the newest revision at the heartbeat before
	known  int64       // the service's revision when the stream was last tested
	doubt  atomic.Bool // it was tested, and not found well
}

// renew moves all watches from the stream with this number to another one.
func (s *streams) renew(session context.Context, number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.number != number {
		return
	}
	if s.cancel != nil {
		s.cancel()
	}
	s.number++
	s.ctx, s.cancel = context.WithCancel(session)
}

// remake makes all watches again.
func (s *streams) remake(of *session) {
	number, _ := s.current()
	s.renew(of.Ctx, number)
}

func (s *streams) current() (int, context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.number, s.ctx
}

// ownStreams is how many a session has besides the first: two may be to the same frozen member.
const ownStreams = 3

// on returns a context for requests on a stream.
func (s *session) on(ctx context.Context, number int) context.Context {
	ctx = clientv3.WithRequireLeader(ctx)
	if number == 1 {
		return ctx // all sessions of a client share the first
	}
	return metadata.AppendToOutgoingContext(ctx, "elector-stream", s.ID()+"-"+strconv.Itoa(number%ownStreams))
}

// suspect finds out in the background whether the stream is alive.
func (s *streams) suspect(of *session) {
	if s.watches.Load() == 0 || !s.asking.CompareAndSwap(false, true) {
		return
	}
	number, stream := s.current()
	heard := s.heard.Load()
	of.Run(func() {
		defer s.asking.Store(false)
		ctx, cancel := context.WithTimeout(stream, of.patience())
		defer cancel()
		_ = of.client.Watcher.RequestProgress(of.on(ctx, number)) // the lack of a reply says enough
		<-ctx.Done()
		if s.heard.Load() == heard {
			s.renew(of.Ctx, number)
		}
	})
}

// listen is called with each confirmed heartbeat. That may have gone to another member, and does not
// show whether the stream is alive. So if something was written somewhere, and nothing has arrived for
// two heartbeats, listen tests the stream by a watch that is ended at once: if that is not made in
// time, watch moves all to another stream. The same happens if the member is more than a heartbeat
// behind: one whose disk stalls applies nothing more, but answers. Progress is no sign of life: it is
// not reported while a watch on the stream waits for the next revision.
func (s *streams) listen(of *session) {
	heard, newest := s.heard.Load(), of.newest.Load()
	before := s.newest
	s.newest = newest
	key := s.key.Load()
	if heard != s.last || s.watches.Load() == 0 || newest == s.known && !s.doubt.Load() || key == nil {
		s.last, s.silent = heard, 0
		return
	}
	if s.silent++; s.silent < 2 {
		return
	}
	s.silent, s.known = 0, newest
	s.doubt.Store(true) // until the stream is found well: the next may be to the same member
	of.Run(func() {
		number, stream := s.current()
		answers, end := of.watch(of.Ctx, *key, clientv3.WithRev(newest+1), clientv3.WithCreatedNotify())
		defer end(nil)
		select {
		case made, ok := <-answers:
			switch {
			case ok && made.Created && made.Header.GetRevision() >= before:
				s.doubt.Store(false)
			case ok:
				s.renew(of.Ctx, number)
				of.shift(of.Ctx)
			}
		case <-stream.Done():
		case <-of.Ctx.Done():
		}
	})
}

// watch makes a watch that ends with ctx, or when it must be made again. It blocks until the watch is
// made. end gives the watch up; its argument says why: errWatchEnded without another cause blames the
// stream. A stream keeps the token with which it was opened, and when that has run out every watch
// added to it is closed.
func (s *session) watch(ctx context.Context, key string, opts ...clientv3.OpOption) (answers clientv3.WatchChan, end func(error)) {
	s.streams.key.Store(&key)
	number, stream := s.streams.current()
	ctx, cancel := context.WithCancel(s.on(ctx, number))
	stop := context.AfterFunc(stream, cancel)
	var settled atomic.Bool // it is made, or given up
	late := s.whenLate(s.patience(), &settled, func() {
		s.streams.renew(s.Ctx, number)
		cancel()
	})
	answers = s.client.Watcher.Watch(ctx, key, opts...)
	late.Stop()
	if !settled.CompareAndSwap(false, true) {
		s.shift(s.Ctx)
	} else if ctx.Err() == nil {
		s.streams.made.Store(time.Since(s.streams.since).Nanoseconds())
	}
	s.streams.watches.Add(1)
	return answers, func(err error) {
		if ctx.Err() == nil && errors.Is(err, errWatchEnded) {
			s.streams.renew(s.Ctx, number)
		}
		s.streams.watches.Add(-1)
		stop()
		cancel()
	}
}

// whenLate gives up a watch that is not made in time. The client makes the watches of a stream one
// after the other, so the time counts from when the last one was made: a thousand elections of one
// session may begin at once, and giving up the stream for that would make them all begin again.
func (s *session) whenLate(after time.Duration, settled *atomic.Bool, giveUp func()) *time.Timer {
	return time.AfterFunc(after, func() {
		if settled.Load() {
			return
		}
		quiet := time.Since(s.streams.since) - time.Duration(s.streams.made.Load())
		if left := s.patience() - quiet; left > 0 {
			s.whenLate(left, settled, giveUp)
		} else if settled.CompareAndSwap(false, true) {
			giveUp()
		}
	})
}

// shift makes small requests until the next request will go to a member that answers. Otherwise a
// repeated request might meet the same frozen member each time: the client uses its members in turn,
// frozen or not, as long as their links look well.
func (s *session) shift(ctx context.Context) {
	members, patience := len(s.client.Endpoints()), max(40*time.Millisecond, s.patience()/8)
	var answered []bool
	for i := range 2 * members {
		if i >= members && answered[i-members] || ctx.Err() != nil {
			return
		}
		soon, cancel := context.WithTimeout(ctx, patience)
		_, err := s.client.Cluster.MemberList(soon, clientv3.WithSerializable())
		cancel()
		answered = append(answered, err == nil)
	}
}
