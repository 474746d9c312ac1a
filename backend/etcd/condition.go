package etcd

import (
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector/backend"
)

// incarnation are the conditions that an incarnation of an entry stands. The create
// revision tells it. An enqueued entry must have its lease, too: see toEntry. In order,
// that is all, as it has been moved there, and its key is never used twice.
func incarnation(e backend.Entry) []clientv3.Cmp {
	created := clientv3.Compare(clientv3.CreateRevision(e.Key), "=", int64(e.Rev))
	n, ok := parseName(e.Key)
	if !ok {
		return []clientv3.Cmp{created}
	}
	leased := clientv3.Compare(clientv3.LeaseValue(e.Key), "=", n.lease)
	if n.ordered && n.ticket == e.Rev {
		return []clientv3.Cmp{leased}
	}
	return []clientv3.Cmp{created, leased}
}

// stands tells whether the conditions of incarnation hold for what stands under the key.
func stands(e backend.Entry, kv *mvccpb.KeyValue) bool {
	n, ok := parseName(e.Key)
	switch {
	case ok && kv.GetLease() != int64(n.lease):
		return false
	case ok && n.ordered && n.ticket == e.Rev:
		return true
	}
	return kv.GetCreateRevision() == int64(e.Rev)
}

func guardCmps(g backend.Condition) []clientv3.Cmp {
	cmps := incarnation(g.Entry)
	if g.Exact {
		cmps = append(cmps, clientv3.Compare(clientv3.Version(g.Entry.Key), "=", int64(g.Entry.Version)))
	}
	return cmps
}
