package zookeeper

import (
	"context"
	"errors"
	"path"
	"strings"

	"github.com/elector-go/elector/backend"
)

var errRewound = errors.New("an entry that was deleted is back: the service was restored from a backup")

// gone notes that an incarnation is gone, of any session.
func (s *session) gone(key string, rev uint64) {
	if _, own := s.learned.own(backend.Entry{Key: key, Rev: rev}); own || s.isOwnName(path.Base(key)) {
		s.ended(key, rev)
	}
	s.learned.bury(key, rev)
}

// ended notes that an own incarnation is gone. One that has never existed may come yet.
func (s *session) ended(key string, rev uint64) {
	newest := s.pin.Newest()
	if rev > newest {
		return
	}
	s.learned.mu.Lock()
	defer s.learned.mu.Unlock()
	s.learned.ended(key, rev, newest)
}

// lookBack ends the session if one of its entries that were gone exists. A restored server is a new
// process, so the session looks on each new link. (The command restore of 3.9's admin server breaks no
// link: it is not noticed.)
//
// One read is enough if it finds an entry that is younger than the end of all that have ended: its
// history includes their ends. The entry must be of an earlier link, as one made since may be in the
// other history.
func (s *session) lookBack(ctx context.Context) error {
	gen, _ := s.linked()
	if key, rev := s.learned.latest(max(s.late.lookedBack, 1)); key != "" {
		stat, err := s.exists(ctx, s.path(key))
		if err == nil && stat != nil && uint64(stat.Czxid) == rev {
			s.late.lookedBack = gen
			return nil
		}
	}
	var errs []error
	for _, place := range s.learned.past.Places() {
		mark := s.learned.past.Mark()
		back, err := s.isBackAt(ctx, place, mark)
		if back {
			// The server may lag behind what a notice has shown on another link, or its leader may be
			// deposed.
			if err = s.settle(ctx, 0); err == nil {
				back, err = s.isBackAt(ctx, place, mark)
			}
		}
		switch {
		case err != nil && !mean(err).Stop: // else it does not exist, or cannot be read
			errs = append(errs, err)
		case back && err == nil:
			s.lose(errRewound)
			return nil
		}
	}
	if len(errs) == 0 {
		s.late.lookedBack = gen
	}
	return errors.Join(errs...)
}

func (s *session) isBackAt(ctx context.Context, place string, mark int) (back bool, err error) {
	dir, enqueued := strings.CutSuffix(place, "/")
	if !enqueued {
		return s.isBack(ctx, place, mark)
	}
	children, _, err := s.list(ctx, dir)
	for _, child := range children {
		key := place + child
		if !s.isOwnName(child) || s.learned.owned(key) {
			continue
		}
		if back, err = s.isBack(ctx, key, mark); back || err != nil {
			break
		}
	}
	return back, err
}

// isOwnName reports whether this session has enqueued an entry of that name.
func (s *session) isOwnName(name string) bool { return strings.HasPrefix(name, entryPrefix+s.ID()+"-") }

func (s *session) isBack(ctx context.Context, key string, mark int) (bool, error) {
	n, err := s.get(ctx, s.path(key))
	if err != nil {
		return false, err
	}
	e := s.entry(s.path(key), n)
	return e.Session == s.ID() && s.learned.past.Has(key, e.Rev, mark), nil
}
