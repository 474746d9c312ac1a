package etcd_test

import (
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector/backend/etcd"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servicetest"
)

// The user's own transaction, with the user's own client, works under conditions. A term's Guard holds as
// long as the term does: rule fence/ended.
func TestCmps(t *testing.T) {
	f := setUp(t, 30*time.Second)
	user := f.operator()
	servicetest.Conditions(t, f.Backend, newRoot(), true, etcd.Cmps, func(t testing.TB, cmps []clientv3.Cmp) bool {
		answer := must.Get(user.Txn(f.Ctx).If(cmps...).Then(clientv3.OpPut(f.Dir+"-state", "x")).Commit())(t)
		return answer.Succeeded
	})
}
