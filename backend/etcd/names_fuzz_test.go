package etcd

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector/backend"
)

const fuzzNonce = "0123456789abcdef"

// FuzzName checks that a name counts as an enqueued entry's only if this package makes it, to the byte;
// and that it is an entry only if its lease is the one in its name, and its ticket was given out.
func FuzzName(f *testing.F) {
	for _, name := range []string{
		"", "/", "1-", "2-", "3-", "2-1f-" + fuzzNonce, "2-1f-" + fuzzNonce + "-t", "2-1f-" + fuzzNonce + "-t-t",
		"1-7ffffffffffffffe-1f-" + fuzzNonce, "1-7fffffffffffffff-1f-" + fuzzNonce, "1-ffffffffffffffff-1f-" + fuzzNonce,
		"1-0000000000000000-1f-" + fuzzNonce, "1--000000000000001-1f-" + fuzzNonce, "2--1-" + fuzzNonce, "2-+1-" + fuzzNonce,
		"2-01f-" + fuzzNonce, "2-1F-" + fuzzNonce, "2-7fffffffffffffff-" + fuzzNonce, "2-8000000000000000-" + fuzzNonce, "2-0-" + fuzzNonce,
		"1-7ffffffffffffffe-1f-" + fuzzNonce + "-t", "2-1f-" + fuzzNonce + "0",
	} {
		f.Add("/dir", name, int64(0x1f), int64(9))
	}
	f.Fuzz(func(t *testing.T, dir, last string, lease, created int64) {
		key := dir + "/" + last
		n, ok := parseName(key)
		kv := &mvccpb.KeyValue{Key: []byte(key), Lease: lease, CreateRevision: created, ModRevision: created, Version: 1}
		ticket, enqueued := ticketOf(kv)
		if !ok {
			if enqueued || n != (name{}) {
				t.Fatalf("%q is no name, and is %+v with ticket %d", key, n, ticket)
			}
			return
		}
		session := formatSession(n.lease)
		nonce := strings.TrimSuffix(key, transitSuffix)
		nonce = nonce[len(nonce)-hexDigits:]
		alone := aloneKey(key[:strings.LastIndexByte(key, '/')], session, nonce)
		made := alone
		switch {
		case n.ordered && n.transit:
			t.Fatalf("%q is both in order and on its way", key)
		case n.ordered:
			made = orderedKey(alone+transitSuffix, n.ticket)
		case n.transit:
			made = alone + transitSuffix
		}
		if made != key {
			t.Fatalf("%q was taken for %+v, of which the key is %q", key, n, made)
		}
		from, end := queueRange(backend.Parent(alone))
		if strings.Count(alone, "/") > 1 && (key < from || key >= end) {
			t.Errorf("%q is not in the queue's range %q to %q", key, from, end)
		}
		switch {
		case enqueued && int64(n.lease) != lease:
			t.Errorf("%q with lease %x is an entry of session %s", key, lease, session)
		case enqueued && ticket > uint64(max(created, 0)) && created >= 0:
			t.Errorf("%q, created at %d, has ticket %d, of the future", key, created, ticket)
		case !enqueued && int64(n.lease) == lease && !n.ordered:
			t.Errorf("%q with its own lease is no entry", key)
		}
		if e := toEntry(key, kv); enqueued && (e.Session != session || e.Rev != ticket) || e.Exists() && e.Session != session {
			t.Errorf("%q with lease %x is %+v", key, lease, e)
		}
	})
}

// FuzzTickets checks that the keys sort like the queue: the youngest first, and those that were alone
// last.
func FuzzTickets(f *testing.F) {
	f.Add(uint64(1), uint64(2), int64(1), int64(2))
	f.Add(uint64(15), uint64(16), int64(math.MaxInt64), int64(1))
	f.Add(uint64(1), uint64(maxTicket), int64(0x10), int64(0xf))
	f.Fuzz(func(t *testing.T, a, b uint64, leaseA, leaseB int64) {
		a, b = max(1, a&maxTicket), max(1, b&maxTicket)
		alone := aloneKey("/d", formatSession(clientv3.LeaseID(max(1, leaseA&math.MaxInt64))), fuzzNonce)
		other := aloneKey("/d", formatSession(clientv3.LeaseID(max(1, leaseB&math.MaxInt64))), fuzzNonce)
		first, second := orderedKey(alone+transitSuffix, a), orderedKey(other+transitSuffix, b)
		if a < b && first <= second || a > b && first >= second {
			t.Errorf("tickets %d and %d have the keys %q and %q", a, b, first, second)
		}
		from, end := queueRange("/d")
		for _, key := range []string{first, second} {
			if key < from || key >= alone || key >= other || alone >= end {
				t.Errorf("%q, %q and %q are not in this order between %q and %q", key, alone, other, from, end)
			}
			if !strings.HasPrefix(key, orderedFrom("/d", a)) && !strings.HasPrefix(key, orderedFrom("/d", b)) {
				t.Errorf("%q is not where those with its ticket are", key)
			}
		}
	})
}

// FuzzCmps checks that for any entry there are conditions on that very key, or an error that names it
// and says why.
func FuzzCmps(f *testing.F) {
	s := started(f, &clientv3.LeaseGrantResponse{ID: 0x1f, TTL: 1 << 20}, time.Now())
	f.Add("/d/seat", uint64(5), uint64(1), false)
	f.Add("/d/2-1f-"+fuzzNonce, uint64(5), uint64(1), true)
	f.Add("/d/1-7ffffffffffffffa-1f-"+fuzzNonce, uint64(5), uint64(1), false)
	f.Add("/d/1-7ffffffffffffffa-1f-"+fuzzNonce, uint64(6), uint64(1), false)
	f.Add("/d", uint64(0), uint64(0), false)
	f.Add("/d", uint64(math.MaxUint64), uint64(math.MaxUint64), true)
	f.Add("/d/\n", uint64(1), uint64(1), true)
	f.Fuzz(func(t *testing.T, key string, rev, version uint64, exact bool) {
		e := backend.Entry{Key: key, Rev: rev, Version: version}
		cmps, err := Cmps(t.Context(), backend.NewSession("etcd", s), backend.Condition{Entry: e, Exact: exact})
		switch wrong := backend.CheckKey(key); {
		case wrong != nil:
			if !errors.Is(err, backend.ErrBadKey) || !strings.Contains(err.Error(), wrong.Error()) {
				t.Fatalf("guard on %q: %v", key, err)
			}
			return
		case rev == 0:
			if !errors.Is(err, backend.ErrCondition) || !strings.Contains(err.Error(), key) {
				t.Fatalf("guard on no entry: %v", err)
			}
			return
		case err != nil:
			t.Fatalf("guard on %+v: %v", e, err)
		}
		n, named := parseName(key)
		moved := named && n.ordered && n.ticket == rev
		var created, leased bool
		for _, cmp := range cmps {
			c := cmp.GetCompare()
			if string(c.Key) != key || len(c.RangeEnd) > 0 {
				t.Errorf("condition %v for %q", c, key)
			}
			switch c.Target {
			case pb.Compare_CREATE:
				created = c.GetCreateRevision() == int64(rev)
			case pb.Compare_LEASE:
				leased = c.GetLease() == int64(n.lease)
			case pb.Compare_VERSION:
				exact = exact && c.GetVersion() != int64(version)
			}
		}
		if created == moved || leased != named || exact {
			t.Errorf("conditions %v for %+v", cmps, e)
		}
	})
}
