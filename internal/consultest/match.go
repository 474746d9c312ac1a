package consultest

import (
	"regexp"
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector/backend"
)

// MatchKind matches commits that have an op of the kind.
func MatchKind(kind backend.OpKind) func(api.TxnOps) bool {
	return func(ops api.TxnOps) bool {
		for _, op := range ops {
			if op.KV != nil && !internal(op.KV.Key) && is(kind, op.KV) {
				return true
			}
		}
		return false
	}
}

func is(kind backend.OpKind, op *api.KVTxnOp) bool {
	switch kind {
	case backend.OpCreateEphemeral:
		return op.Verb == api.KVLock && !enqueued.MatchString(op.Key)
	case backend.OpEnqueue:
		return op.Verb == api.KVLock && enqueued.MatchString(op.Key)
	case backend.OpCompareAndSet:
		return op.Verb == api.KVCAS
	case backend.OpUpdate:
		return op.Verb == api.KVSet
	case backend.OpDelete:
		return op.Verb == api.KVDelete
	}
	return false
}

// enqueued matches the keys that the backend makes for enqueued entries.
var enqueued = regexp.MustCompile(`/[^/]*[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}[^/]*$`)

// internal reports whether a key is one of the backend's own, not of an entry.
func internal(key string) bool { return strings.HasPrefix(key, ".elector/") }
