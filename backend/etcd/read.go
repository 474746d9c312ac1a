package etcd

import (
	"cmp"
	"context"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector/backend"
)

// patience is how long a member may take at first for an answer, before the request
// goes to the next: a member may be frozen, and its link look well.
func (s *session) patience() time.Duration { return s.TTL() / 4 }

// longer is the patience for the next try, which may only be slow.
func (s *session) longer(patience time.Duration) time.Duration {
	return min(2*patience, max(s.TTL()/2, time.Second))
}

// try makes a request that does no harm if it is made several times, again and again
// while the servers cannot be reached. When one is not answered in time, the next ones are made
// twice: the client gives its members turns, so that they go to different ones.
func try[T any](ctx context.Context, s *session, request func(context.Context) (T, error)) (T, error) {
	bound, cancel := s.Bind(ctx)
	defer cancel()
	times := 1
	var refused bout
	for p, patience := newPause(), s.patience(); ; patience = s.longer(patience) {
		var none T
		if err := s.Over(ctx); err != nil {
			return none, err
		}
		asking, cancel := context.WithTimeout(bound, patience)
		v, err := several(asking, times, request)
		late := asking.Err() != nil
		cancel()
		switch {
		case err == nil && s.Ctx.Err() == nil: // else it may show what Close has done
			return v, nil
		case s.Over(ctx) != nil:
			return none, s.Over(ctx)
		case !passing(err) || refused.over(s, err):
			return none, answerError(err)
		case late:
			times = 2
		}
		s.poke()
		p.wait(bound)
	}
}

// several makes a request several times at once, and returns the first answer.
func several[T any](ctx context.Context, times int, request func(context.Context) (T, error)) (T, error) {
	if times == 1 {
		return request(ctx)
	}
	type answer struct {
		v   T
		err error
	}
	ctx, cancel := context.WithCancel(ctx)
	answers := make(chan answer, times)
	for range times {
		go func() {
			v, err := request(ctx)
			answers <- answer{v, err}
		}()
	}
	var best answer
	for i := range times {
		a := <-answers
		if i == 0 || best.err != nil && passing(best.err) {
			best = a
		}
		if best.err == nil {
			cancel() // the others end at once, and are waited for
		}
	}
	cancel()
	return best.v, best.err
}

// hedged makes a request, and one more after each interval without an answer, three in all: the
// client gives its members turns. It returns the first answer that decides, and else the last.
func hedged[T any](ctx context.Context, interval time.Duration, request func(context.Context) (T, error)) (T, error) {
	const most = 3
	type answer struct {
		v   T
		err error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan answer, most)
	ask := func() {
		v, err := request(ctx)
		answers <- answer{v, err}
	}
	go ask()
	next := time.NewTicker(interval)
	defer next.Stop()
	var last answer
	decided := false
	for asked, answered := 1, 0; answered < asked; {
		select {
		case a := <-answers:
			answered++
			if !decided {
				last = a
			}
			if decided = decided || a.err == nil || !passing(a.err); decided {
				cancel() // the others end at once, and are waited for
			}
		case <-next.C:
			if asked < most && !decided && ctx.Err() == nil {
				asked++
				go ask()
			}
		}
	}
	return last.v, last.err
}

// snapshot does some gets at one revision.
func (s *session) snapshot(ctx context.Context, gets ...clientv3.Op) ([][]*mvccpb.KeyValue, int64, error) {
	answer, err := try(ctx, s, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		answer, err := s.client.KV.Txn(ctx).Then(gets...).Commit()
		if err == nil {
			err = whole(answer.Header, len(ranges(answer)), len(gets))
		}
		return answer, err
	})
	if err != nil {
		return nil, 0, err
	}
	s.saw(answer.Header.Revision)
	return ranges(answer), answer.Header.Revision, nil
}

// ranges are what the gets of a transaction found, in their order.
func ranges(answer *clientv3.TxnResponse) [][]*mvccpb.KeyValue {
	var out [][]*mvccpb.KeyValue
	for _, r := range answer.Responses {
		if found := r.GetResponseRange(); found != nil {
			out = append(out, found.Kvs)
		}
	}
	return out
}

// withoutValue is for gets of all but the value. WithKeysOnly alone leaves out the lease,
// too, from servers of version 3.7; sorting by the value has them read it.
func withoutValue() []clientv3.OpOption {
	return []clientv3.OpOption{clientv3.WithKeysOnly(), clientv3.WithSort(clientv3.SortByValue, clientv3.SortAscend)}
}

// one is the only one of what a get of one key found, or nil.
func one(kvs []*mvccpb.KeyValue) *mvccpb.KeyValue {
	if len(kvs) == 0 {
		return nil
	}
	return kvs[0]
}

// Get implements backend.Driver.
func (s *session) Get(ctx context.Context, key string) (backend.Entry, error) {
	answer, err := try(ctx, s, func(ctx context.Context) (*clientv3.GetResponse, error) {
		answer, err := s.client.KV.Get(ctx, key)
		if err == nil {
			err = whole(answer.Header, 0, 0)
		}
		return answer, err
	})
	if err != nil {
		return backend.Entry{}, err
	}
	s.saw(answer.Header.Revision)
	s.shows(answer.Header.Revision)
	e := toEntry(key, one(answer.Kvs))
	if !e.Exists() {
		return backend.Entry{}, backend.ErrNoEntry
	}
	return e, nil
}

// List implements backend.Driver.
func (s *session) List(ctx context.Context, dir string) (backend.Listing, error) {
	l, _, err := s.list(ctx, dir)
	return l, err
}

// list reads the keys enqueued in dir, and tells at which revision.
func (s *session) list(ctx context.Context, dir string) (backend.Listing, int64, error) {
	key, end := queueRange(dir)
	found, rev, err := s.snapshot(ctx, clientv3.OpGet(key, append(withoutValue(), clientv3.WithRange(end))...))
	if err != nil {
		return backend.Listing{}, 0, err
	}
	s.shows(rev)
	type place struct {
		ticket uint64
		key    string
	}
	var queue []place
	for _, kv := range found[0] {
		ticket, ok := ticketOf(kv)
		if !ok || !parentIs(dir, kv) {
			continue
		}
		key := string(kv.Key)
		if isTransit(toEntry(key, kv)) {
			helped, err := s.helpAt(ctx, key)
			if err != nil {
				return backend.Listing{}, 0, err
			}
			if !helped { // it is listed when it has a key that stays
				continue
			}
			key = orderedKey(key, ticket)
		}
		queue = append(queue, place{ticket, key})
	}
	slices.SortFunc(queue, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.ticket, b.ticket), cmp.Compare(a.key, b.key))
	})
	l := backend.Listing{Dir: dir, Keys: make([]string, len(queue))}
	for i, p := range queue {
		l.Keys[i] = p.key
	}
	l.Rev = s.memory.listed(l, uint64(rev))
	return l, rev, nil
}

func parentIs(dir string, kv *mvccpb.KeyValue) bool { return backend.Parent(string(kv.Key)) == dir }

// memory is what a session remembers of what it has read.
type memory struct {
	mu    sync.Mutex
	lists map[string]listed // by directory
	stood standing
}

// mostListed is how many directories a session remembers.
const mostListed = 4096

// listed is the last listing of a directory. etcd does not tell when a key was
// deleted last; so a listing bears the revision at which it was first read as it is.
type listed struct{ rev, sum uint64 }

var seed = maphash.MakeSeed()

// listed returns the revision that a listing bears which was read at rev.
func (m *memory) listed(l backend.Listing, rev uint64) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, key := range l.Keys {
		_, _ = h.WriteString(key + "\x00") // never fails
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	last, known := m.lists[l.Dir]
	if known && last.sum == h.Sum64() {
		return last.rev
	}
	if m.lists == nil || len(m.lists) == mostListed {
		// A listing that is forgotten gets a later revision, as if it had changed.
		m.lists = make(map[string]listed)
	}
	if !known || rev > last.rev {
		m.lists[l.Dir] = listed{rev, h.Sum64()}
	}
	return rev
}

// standing is what was read as an entry was enqueued: the one before it, if any.
type standing struct {
	own, before backend.Entry
	rev         int64
}

// last is what was read when an entry was enqueued last.
func (m *memory) last() standing {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stood
}

func (m *memory) setStanding(st standing) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stood = st
}
