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

// A service that is restored from a backup goes back in time: leases that were in the backup are
// there again, entries that were made since are not, and the same revisions are given once more. A
// session that lived on would trust an entry that is gone, wait for one that is gone, or hold one that
// it had deleted. So it is lost when the history turns out not to be its own:
//
//   - The session's last write, or the last one with its lease, is not there. If the latter is, so are all
//     before it; a deletion, or a key without a lease, may be in another history by chance. Of what was
//     compacted the key tells less: it may have been deleted since.
//   - The service has fewer revisions than the session had seen before it asked.
//   - The ID of the cluster is another one: another service has taken over the address.
//   - The lease holds an entry that was gone.
//
// A restored server is a new process, so that the heartbeat's stream breaks. The first two are looked at with
// the first heartbeat on each stream, the third with all, and the last when a stream has replaced another, or the
// client's connection was broken before the first. Watches go on by themselves, from a revision that may bear
// something else now: then all of them are made again, too, and what they cover is read. An entry of the session's
// that another session has then, with the same revision, tells as well: see Await.
//
// Before the first heartbeat after the restoration nothing of this is known: the window is open, while
// another may lead. No client can rule that out, nor that tokens are given twice.

// A lastWrite is what a session has written last.
type lastWrite struct {
	key     string
	rev     int64
	lease   clientv3.LeaseID // of what it left; 0 if that is not known
	deleted bool
}

// wrote notes a write. What has the session's lease tells the most: another session may write the same key
// at the same revision of another history.
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

// checkHistory tells whether the history is the session's, which had seen the revision newest, and whether
// that is known: reads may be refused, or not answered, while heartbeats are.
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
	return true, true // it has nothing, and waits for nothing
}

// checkWrite is checkHistory for one write, or for none whose revision is 0.
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
	case isForbidden(err): // the right to read was taken away since
		return true, true
	}
	return true, false
}

// left tells whether the write, or others after it where later is true, may have left this under its key.
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

// ended notes that an incarnation is gone. One that has never been may come yet.
func (s *session) ended(key string, rev uint64) {
	if rev <= uint64(s.newest.Load()) {
		s.past.Add(key, rev, key)
	}
}

// lookBack ends the session if its lease holds an entry that was gone: see driver.Past. The other history may hide that
// from the checks of the last write: it has been compacted, or the session has written to it before the heartbeat.
// Where the lease's keys may not be read, nothing is found.
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
