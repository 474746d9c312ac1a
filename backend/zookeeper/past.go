package zookeeper

import (
	"context"
	"errors"
	"hash/maphash"
	"slices"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// pastMost is how many entries that are gone are remembered for lookBack.
const pastMost = 4096

var errRewound = errors.New("an entry that was deleted is back: the service was restored from a backup")

// past holds the latest of a session's own entries that are known to be gone. An operator who restores the
// service from a backup may bring them back. The session is in the backup and lives on, so they would stay, and all
// candidates wait behind them.
//
// So on each new link the session looks where they were: a restored server is a new process, and has no old links. If one
// of them is back the session is lost, and all its entries go with it. This is never wrong: no history has the same
// incarnation twice. (A server may lag behind what a notice has shown on another link. So it is asked twice, the
// second time after a sync.)
type past struct {
	places driver.Cache[bool] // directories of what was enqueued (true), and other keys

	mu   sync.Mutex
	seed maphash.Seed
	gone []uint64 // hashes of incarnations
	next int      // the oldest, once there are pastMost
}

// incarnation is what tells an entry from all others. Of what was enqueued the key does, and rev is 0.
type incarnation struct {
	key string
	rev uint64
}

func (p *past) hash(key string, rev uint64) uint64 {
	if isEnqueued(key) {
		rev = 0
	}
	return maphash.Comparable(p.seed, incarnation{key, rev})
}

// add notes that an own entry is gone.
func (p *past) add(key string, rev uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone == nil {
		p.seed = maphash.MakeSeed()
	}
	h := p.hash(key, rev)
	switch {
	case slices.Contains(p.gone, h):
		return
	case len(p.gone) < pastMost:
		p.gone = append(p.gone, h)
	default:
		p.gone[p.next] = h
		p.next = (p.next + 1) % pastMost
	}
	if isEnqueued(key) {
		p.places.Put(backend.Parent(key), true)
	} else {
		p.places.Put(key, false)
	}
}

func (p *past) has(key string, rev uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.gone) > 0 && slices.Contains(p.gone, p.hash(key, rev))
}

// lookBack ends the session if one of its entries that were gone is there.
func (s *session) lookBack(ctx context.Context) error {
	var errs []error
	for place, enqueued := range s.learned.past.places.All() {
		look := s.isBack
		if enqueued {
			look = s.isBackIn
		}
		back, err := look(ctx, place)
		if back && err == nil {
			if err = s.sync(ctx, s.path(place)); err == nil {
				back, err = look(ctx, place)
			}
		}
		switch {
		case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNoAuth): // it is not, or cannot be told
		case err != nil:
			errs = append(errs, err)
		case back:
			s.lose(errRewound)
			return nil
		}
	}
	return errors.Join(errs...)
}

func (s *session) isBack(ctx context.Context, key string) (bool, error) {
	n, err := s.get(ctx, s.path(key))
	if err != nil {
		return false, err
	}
	e := s.entry(s.path(key), n)
	return e.Session == s.ID() && s.learned.past.has(key, e.Rev), nil
}

func (s *session) isBackIn(ctx context.Context, dir string) (bool, error) {
	children, _, err := s.list(ctx, dir)
	return slices.ContainsFunc(children, func(child string) bool {
		return strings.HasPrefix(child, entryPrefix+s.ID()) && s.learned.past.has(dir+"/"+child, 0)
	}), err
}
