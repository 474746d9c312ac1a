package etcd

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// A service that is restored from a backup goes back in time, and gives the same revisions again. A session
// that lived on would trust an entry that is gone, wait for one that is gone, or hold one that it had deleted.
// So a session is lost when its history turns out not to be the service's: DESIGN.md, "Signs of another
// history", has how that shows, and when it is checked. Until then the window is open, while another session may
// lead: no client can rule that out.

// A lastWrite is the last write of a session.
type lastWrite struct {
	key     string
	rev     int64
	lease   clientv3.LeaseID // of what it left; 0 if unknown
	deleted bool
}

// wrote notes a write. A write with the session's lease proves the most: another session may write the
// same key at the same revision of another history.
func (s *session) wrote(w lastWrite) {
	keep(&s.written, w)
	if w.lease == s.lease {
		keep(&s.held, w)
	}
}

// keep keeps the later of two writes.
func keep(last *atomic.Pointer[lastWrite], w lastWrite) {
	for {
		have := last.Load()
		if have != nil && have.rev >= w.rev || last.CompareAndSwap(have, &w) {
			return
		}
	}
}

// checkHistory reports whether the history is the session's, which had seen the revision newest, and
// whether that is known: reads may be refused, or not answered, while heartbeats are answered.
func (s *session) checkHistory(newest int64, patience time.Duration) (intact, known bool) {
	ctx, cancel := context.WithTimeout(s.Ctx, patience)
	defer cancel()
	written, held := s.written.Load(), s.held.Load()
	switch key := s.streams.key.Load(); {
	case written != nil:
		if intact, known = s.checkWrite(ctx, *written, newest); intact && known && held != nil && held != written {
			intact, known = s.checkWrite(ctx, *held, newest)
		}
		return intact, known
	case key != nil:
		return s.checkWrite(ctx, lastWrite{key: *key}, newest)
	}
	return true, true // it has written nothing, and waits for nothing
}

// checkWrite is checkHistory for one write; with revision 0, for none.
func (s *session) checkWrite(ctx context.Context, w lastWrite, newest int64) (intact, known bool) {
	get := func(opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
		return ask(ctx, 1, s.interval()/8, func(ctx context.Context) (*clientv3.GetResponse, error) {
			return s.getOnce(ctx, w.key, append(withoutValue(), opts...)...)
		})
	}
	answer, err := get(clientv3.WithRev(w.rev))
	compacted := err != nil && is(err, rpctypes.ErrCompacted)
	if compacted {
		answer, err = get()
	}
	switch {
	case err == nil:
		return answer.Header.Revision >= newest && (w.rev == 0 || w.left(one(answer.Kvs), compacted)), true
	case is(err, rpctypes.ErrFutureRev):
		return false, true
	case isForbidden(err): // the right to read was revoked since
		return true, true
	}
	return true, false
}

// left reports whether the write, or if later is true a write after it, may have left kv under its key.
func (w lastWrite) left(kv *mvccpb.KeyValue, later bool) bool {
	switch {
	case kv == nil:
		return w.deleted || later
	case w.deleted:
		return later && kv.CreateRevision > w.rev
	case kv.ModRevision == w.rev:
		return w.lease == 0 || kv.Lease == int64(w.lease)
	}
	return later && kv.ModRevision > w.rev
}

// ended notes that an incarnation is gone. One that has never existed may yet come.
func (s *session) ended(key string, rev uint64) {
	if rev <= uint64(s.newest.Load()) {
		s.past.Add(key, rev, key)
	}
}

// lookBack ends the session if its lease holds an entry that was gone: see driver.Past. The checks of
// the last write may miss that: the other history has been compacted, or the session has written to it
// before the heartbeat. If the lease's keys may not be read, nothing is found.
func (s *session) lookBack() {
	gone := s.past.Places()
	if len(gone) == 0 {
		return
	}
	lease, err := try(s.Ctx, s, func(ctx context.Context) (*clientv3.LeaseTimeToLiveResponse, error) {
		return s.client.Lease.TimeToLive(ctx, s.lease, clientv3.WithAttachedKeys())
	})
	if err != nil {
		return
	}
	for _, raw := range lease.Keys {
		key := string(raw)
		if !slices.Contains(gone, key) {
			continue
		}
		mark := s.past.Mark()
		if e, err := s.Get(s.Ctx, key); err == nil && e.Session == s.ID() && s.past.Has(key, e.Rev, mark) {
			s.Lose(errRewound)
			return
		}
	}
}
