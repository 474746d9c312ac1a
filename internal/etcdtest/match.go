package etcdtest

import (
	"bytes"
	"slices"

	"go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/elector-go/elector/backend"
)

// A Match tells whether a transaction is meant.
type Match = func(*etcdserverpb.TxnRequest) bool

// MatchKind matches commits that have an op of the kind. A commit can be told from
// the second step of an Enqueue and from what cleans up: it asks for its fence, a key
// with a zero byte, not to be put since.
func MatchKind(kind backend.OpKind) Match {
	return func(txn *etcdserverpb.TxnRequest) bool {
		fenced := func(c *etcdserverpb.Compare) bool { return bytes.ContainsRune(c.Key, 0) }
		if !slices.ContainsFunc(txn.Compare, fenced) {
			return false
		}
		for _, op := range txn.Success {
			switch put := op.GetRequestPut(); {
			case put != nil:
				if kindOf(txn, put) == kind {
					return true
				}
			case op.GetRequestTxn() != nil: // of a key or another, as others stand there or not
				if kind == backend.OpEnqueue {
					return true
				}
			case op.GetRequestDeleteRange() != nil:
				if kind == backend.OpDelete {
					return true
				}
			}
		}
		return false
	}
}

// kindOf tells what a put is. A CompareAndSet over an entry leaves the lease alone as an Update
// does. It asks for the version alone, and the latter for the incarnation, at least.
func kindOf(txn *etcdserverpb.TxnRequest, put *etcdserverpb.PutRequest) backend.OpKind {
	incarnation := slices.ContainsFunc(txn.Compare, func(c *etcdserverpb.Compare) bool {
		return c.Target != etcdserverpb.Compare_VERSION && bytes.Equal(c.Key, put.Key)
	})
	switch {
	case put.IgnoreLease && incarnation:
		return backend.OpUpdate
	case put.Lease == 0:
		return backend.OpCompareAndSet
	}
	return backend.OpCreateEphemeral
}
