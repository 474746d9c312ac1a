package etcd

import (
	"context"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// Cmps returns the conditions as comparisons for the user's own transaction, which then
// writes only if the conditions hold at that instant.
//
//	cmps, err := etcd.Cmps(ctx, g.Session, g.Conditions...)
//	…
//	answer, err := client.Txn(ctx).If(cmps...).Then(clientv3.OpPut("/jobs/state", …)).Commit()
//
// client may be any client of the same cluster and namespace that may read the entries.
// answer.Succeeded is false when a condition does not hold.
//
// The session must be of this package (one behind backend.Share is). Cmps takes no round
// trip and does not block. The comparisons do not go stale. ErrCondition says that a
// condition can never hold.
func Cmps(ctx context.Context, s *backend.Session, guards ...backend.Condition) ([]clientv3.Cmp, error) {
	return driver.Conditions(ctx, "etcd: cmps", s, guards, func(own *session) ([]clientv3.Cmp, error) {
		p, err := (&commit{s: own, guards: guards}).compile("")
		if err != nil {
			return nil, err
		}
		return p.cmps, nil
	})
}

// incarnation returns the conditions that an incarnation of an entry exists. An entry of a session must
// have the session's lease: a restored service gives revisions again (see history.go); for an enqueued
// entry see toEntry. The create revision decides the rest, unless the entry is in order.
func incarnation(e backend.Entry) (cmps []clientv3.Cmp) {
	if lease, ok := leaseOf(e); ok {
		cmps = append(cmps, clientv3.Compare(clientv3.LeaseValue(e.Key), "=", lease))
	}
	if !isInOrder(e) {
		cmps = append(cmps, clientv3.Compare(clientv3.CreateRevision(e.Key), "=", int64(e.Rev)))
	}
	return cmps
}

// stands reports whether the conditions of incarnation hold for what is under the key.
func stands(e backend.Entry, kv *mvccpb.KeyValue) bool {
	if lease, ok := leaseOf(e); ok && kv.GetLease() != int64(lease) {
		return false
	}
	return isInOrder(e) || kv.GetCreateRevision() == int64(e.Rev)
}

// leaseOf returns the lease of an entry, if it is known to have one.
func leaseOf(e backend.Entry) (clientv3.LeaseID, bool) {
	if n, ok := parseName(e.Key); ok {
		return n.lease, true
	}
	return parseSession(e.Session)
}

// isInOrder reports whether an entry was moved to a key that names its revision and is never used
// twice.
func isInOrder(e backend.Entry) bool {
	n, ok := parseName(e.Key)
	return ok && n.ordered && n.ticket == e.Rev
}
