package etcd

import (
	"context"
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
//   - A member that has answered a linearizable read has applied all that anybody was told of before
//     it was sent. With each heartbeat the revision that this member then bears is compared with the
//     newest that the session had seen: see exchange.
//   - The writes of others since may have hidden that. But a restored server is a new process, so
//     that the heartbeat's stream breaks. The first heartbeat on each stream looks whether the
//     session's last write is in the history. If it is, so are all before it.
//   - Watches go on by themselves, from a revision that may bear something else now. So when a new stream
//     has replaced another all of them are made again, and what they cover is read.
//   - The ID of the cluster is another one where another service has taken over the address.
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

// wrote notes a write, unless a later one is known.
func (s *session) wrote(w lastWrite) {
	for {
		last := s.written.Load()
		if last != nil && last.rev >= w.rev || s.written.CompareAndSwap(last, &w) {
			return
		}
	}
}

// checkHistory is errRewound if the session's last write is not in the history.
func (s *session) checkHistory(patience time.Duration) error {
	w := s.written.Load()
	if w == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.Ctx, patience)
	defer cancel()
	answer, err := s.client.KV.Get(ctx, w.key, append(withoutValue(), clientv3.WithRev(w.rev))...)
	compacted := is(err, rpctypes.ErrCompacted)
	if compacted {
		answer, err = s.client.KV.Get(ctx, w.key, withoutValue()...)
	}
	if err == nil {
		err = whole(answer.Header, 0, 0)
	}
	switch {
	case err == nil && !w.left(one(answer.Kvs), compacted), is(err, rpctypes.ErrFutureRev):
		return errRewound
	case err != nil && isForbidden(err): // the right to read was taken away since: it cannot be told
		return nil
	}
	return err
}

// left tells whether the write, or others after it where later is true, may have left this under its key.
func (w lastWrite) left(kv *mvccpb.KeyValue, later bool) bool {
	switch {
	case w.deleted:
		return kv == nil || later && kv.CreateRevision > w.rev
	case kv == nil: // what the session holds is not deleted as a rule
		return later && w.lease == 0
	}
	return kv.ModRevision == w.rev && (w.lease == 0 || kv.Lease == int64(w.lease)) || later && kv.ModRevision > w.rev
}
