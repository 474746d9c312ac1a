package etcd

import (
	"context"
	"slices"
	"sync"
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
//   - A write of the session's is not there: one since the last heartbeat, the last one before that, or the last one
//     with its lease. If the latter is, so are all before it; a deletion, or a key without a lease, may be in another
//     history by chance. Of what was compacted the key tells less: it may have been deleted since.
//   - The service has fewer revisions than the session had seen before it asked.
//   - The ID of the cluster is another one: another service has taken over the address.
//
// A restored server is a new process, so that the heartbeat's stream breaks. The first two are looked at with
// the first heartbeat on each stream, and the third with all. Watches go on by themselves, from a revision that
// may bear something else now: when a stream has replaced another, or the client's connection was broken
// before the first, all of them are made again, and what they cover is read. An entry of the session's that
// another session has then, with the same revision, tells as well: see Await.
//
// Before the first heartbeat after the restoration nothing of this is known: the window is open, while
// another may lead. No client can rule that out, nor that tokens are given twice.

// A write is what a commit or a removal of the session's has left.
type write struct {
	key     string
	rev     int64
	lease   clientv3.LeaseID // of what it left; 0 if that is not known
	deleted bool
}

// writesMost is how many writes are held. Only those count that are done after a restoration and before the
// first heartbeat, which is sent at once: more would hide the last one before it.
const writesMost = 16

// writes are a session's, oldest first: those since the history was last found to be its own, and before them the
// last one, and the last one with the session's lease. What has the lease tells the most: another session may
// write the same key at the same revision of another history.
type writes struct {
	mu   sync.Mutex
	all  []write
	made int // so far
}

// add notes a write.
func (h *writes) add(w write) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.made++
	h.all = append(h.all, w)
	h.all = slices.Delete(h.all, 0, max(0, len(h.all)-writesMost))
}

// held returns all, and a mark for settle.
func (h *writes) held() (all []write, mark int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.all), h.made
}

// settle is called when the writes before the mark are known to be in the history.
func (h *writes) settle(mark int, lease clientv3.LeaseID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := max(0, len(h.all)-(h.made-mark))
	last, leased := -1, -1
	for i, w := range h.all[:known] { // answers come in any order
		if last < 0 || w.rev >= h.all[last].rev {
			last = i
		}
		if w.lease == lease && (leased < 0 || w.rev >= h.all[leased].rev) {
			leased = i
		}
	}
	i := -1
	h.all = slices.DeleteFunc(h.all, func(write) bool { i++; return i < known && i != last && i != leased })
}

// checkHistory tells whether the history is the session's, which had seen the revision newest, and whether
// that is known: reads may be refused, or not answered, while heartbeats are.
func (s *session) checkHistory(newest int64, patience time.Duration) (intact, known bool) {
	ctx, cancel := context.WithTimeout(s.Ctx, patience)
	defer cancel()
	all, _ := s.writes.held()
	if key := s.streams.key.Load(); len(all) == 0 && key != nil {
		all = []write{{key: *key}}
	}
	var checks sync.WaitGroup
	var gone, unknown atomic.Bool
	for _, w := range all { // if there is none it waits for nothing, either
		checks.Go(func() {
			intact, known := s.checkWrite(ctx, w, newest)
			if !intact {
				gone.Store(true)
			}
			if !known {
				unknown.Store(true)
			}
		})
	}
	checks.Wait()
	return !gone.Load(), gone.Load() || !unknown.Load()
}

// checkWrite is checkHistory for one write, or for none whose revision is 0.
func (s *session) checkWrite(ctx context.Context, w write, newest int64) (intact, known bool) {
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
func (w write) left(kv *mvccpb.KeyValue, later bool) bool {
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
