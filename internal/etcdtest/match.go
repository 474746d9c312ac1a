package etcdtest

import (
	"bytes"
	"slices"

	"go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/elector-go/elector/backend"
)

// A Match selects transactions.
type Match = func(*etcdserverpb.TxnRequest) bool

// MatchKind matches commits that have an op of the kind. Unlike the second step of an Enqueue and
// cleanups, a commit has the condition that its fence, a key with a zero byte, was not put since.
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
			case op.GetRequestTxn() != nil: // of one key or another, depending on whether others are there
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

// kindOf returns the kind of a put. A CompareAndSet over an entry keeps the lease as an Update does,
// but compares only the version; an Update compares at least the incarnation. An Enqueue of a session that
// has found others there puts its entry into transit.
func kindOf(txn *etcdserverpb.TxnRequest, put *etcdserverpb.PutRequest) backend.OpKind {
	incarnation := slices.ContainsFunc(txn.Compare, func(c *etcdserverpb.Compare) bool {
		return c.Target != etcdserverpb.Compare_VERSION && bytes.Equal(c.Key, put.Key)
	})
	switch {
	case put.IgnoreLease && incarnation:
		return backend.OpUpdate
	case put.Lease == 0:
		return backend.OpCompareAndSet
	case bytes.HasSuffix(put.Key, []byte("-t")):
		return backend.OpEnqueue
	}
	return backend.OpCreateEphemeral
}
