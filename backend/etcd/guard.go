package etcd

import (
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector/backend"
)

// incarnation are the conditions that an incarnation of an entry stands. The create
// revision tells it, but for an enqueued entry whose key has its second form: that key
// is never used twice, so it is enough that it is there, with its lease.
func incarnation(e backend.Entry) []clientv3.Cmp {
	if n, ok := parseName(e.Key); ok && n.ordered && n.ticket == e.Rev {
		return []clientv3.Cmp{clientv3.Compare(clientv3.LeaseValue(e.Key), "=", n.lease)}
	}
	return []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(e.Key), "=", int64(e.Rev))}
}

// stands tells whether the conditions of incarnation hold for what stands under the key.
func stands(e backend.Entry, kv *mvccpb.KeyValue) bool {
	if n, ok := parseName(e.Key); ok && n.ordered && n.ticket == e.Rev {
		return kv.GetLease() == int64(n.lease)
	}
	return kv.GetCreateRevision() == int64(e.Rev)
}

func guardCmps(g backend.Guard) []clientv3.Cmp {
	cmps := incarnation(g.Entry)
	if g.Exact {
		cmps = append(cmps, clientv3.Compare(clientv3.Version(g.Entry.Key), "=", int64(g.Entry.Version)))
	}
	return cmps
}
