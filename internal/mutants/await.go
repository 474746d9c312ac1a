package mutants

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/elector-go/elector/backend"
)

// awaitMutants break rules about waiting for a change.
var awaitMutants = []Mutant{
	mutant("change before the wait ignored", rules{Backend: {"await/wakes"}, "fair": {"data/predecessor-gone"}},
		"Await waits for the next change even if its entries have changed before the call.",
		ofSession(awaits(func(ctx context.Context, s *backend.Session, known []backend.Entry) ([]backend.Entry, error) {
			if slices.ContainsFunc(known, backend.Entry.IsUnknown) {
				return s.Await(ctx, known...) // that is a read
			}
			read, err := now(ctx, s, known)
			if err != nil {
				return nil, err
			}
			return s.Await(ctx, read...)
		}))),
	mutant("new value not noticed", rules{Backend: {"await/wakes"}, "fair": {"view/observe", "view/observe-lost"}},
		"Await returns when an entry is created or deleted, but not when its value changes.",
		ofSession(awaits(func(ctx context.Context, s *backend.Session, known []backend.Entry) ([]backend.Entry, error) {
			for at := known; ; {
				now, err := s.Await(ctx, at...)
				if err != nil || slices.ContainsFunc(now, func(e backend.Entry) bool {
					return !slices.ContainsFunc(known, func(k backend.Entry) bool { return k.Key == e.Key && k.Rev == e.Rev })
				}) {
					return now, err
				}
				at = now
			}
		}))),
	mutant("wait that ends without a change", rules{Backend: {"await/blocks"}},
		"Await returns after the session's timeout though nothing has changed.",
		ofSession(awaits(func(ctx context.Context, s *backend.Session, known []backend.Entry) ([]backend.Entry, error) {
			bound, cancel := context.WithTimeout(ctx, s.TTL())
			defer cancel()
			now, err := s.Await(bound, known...)
			if err != nil && bound.Err() != nil && ctx.Err() == nil {
				return known, nil
			}
			return now, err
		}))),
	mutant("sixteen entries at most", rules{Backend: {"await/several"}},
		"Await waits for the first sixteen entries only.",
		ofSession(awaits(func(ctx context.Context, s *backend.Session, known []backend.Entry) ([]backend.Entry, error) {
			if len(known) <= 16 {
				return s.Await(ctx, known...)
			}
			if _, err := s.Await(ctx, known[:16]...); err != nil {
				return nil, err
			}
			return now(ctx, s, known)
		}))),
	mutant("what is known given back", rules{Backend: {"await/several"}},
		"For entries that have not changed, Await returns the entries that it was given, with any value.",
		ofSession(answering(func(c *backend.Call) {
			for i, known := range c.KnownEntries {
				if c.Entries[i].Same(known) {
					c.Entries[i] = known
				}
			}
		}, backend.CallAwait))),
	mutant("answers in the order of the keys", rules{Backend: {"await/several"}},
		"Await returns entries in the order of their keys instead of the order given.",
		ofSession(answering(func(c *backend.Call) {
			slices.SortFunc(c.Entries, func(a, b backend.Entry) int { return cmp.Compare(a.Key, b.Key) })
		}, backend.CallAwait))),
	mutant("entries read one by one", rules{Backend: {"await/in-order", "await/snapshot"}},
		"Await reads its entries one after the other, so it can show a later change without an earlier one.",
		ofSession(awaits(func(ctx context.Context, s *backend.Session, known []backend.Entry) ([]backend.Entry, error) {
			var read []backend.Entry
			for _, e := range known {
				one, err := now(ctx, s, []backend.Entry{e})
				if err != nil {
					return nil, err
				}
				read = append(read, one...)
				gap()
			}
			if differ(read, known) {
				return read, nil
			}
			return s.Await(ctx, known...)
		}))),
	mutant("cancelled wait takes the watch along", rules{Backend: {"await/again"}},
		"After one Await of a key is cancelled, no other Await of the session notices changes of that key.",
		ofSession(func(s *backend.Session, o *over) {
			var deaf sync.Map // the keys it is deaf to
			awaits(func(ctx context.Context, s *backend.Session, known []backend.Entry) ([]backend.Entry, error) {
				if _, is := deaf.Load(known[0].Key); is {
					return s.Await(ctx, backend.Entry{Key: "/never"})
				}
				now, err := s.Await(ctx, known...)
				if err != nil && ctx.Err() != nil {
					deaf.Store(known[0].Key, true)
				}
				return now, err
			})(s, o)
		})),
	mutant("operator's delete not noticed", rules{Backend: {"await/operator"}, "fair": {"data/election-deleted"}},
		"Await does not return when the whole directory of its entries is deleted.",
		ofSession(awaits(func(ctx context.Context, s *backend.Session, known []backend.Entry) ([]backend.Entry, error) {
			now, err := s.Await(ctx, known...)
			if err != nil || now[0].Exists() || !known[0].Exists() {
				return now, err
			}
			if _, err := s.Get(ctx, backend.Parent(now[0].Key)); isNoEntry(err) {
				return s.Await(ctx, now...)
			}
			return now, nil
		}))),
	mutant("what is past shown after an own write", rules{Backend: {"await/own-writes"}},
		"If a session has deleted an entry of its own and created it again, Await shows it that the entry is gone.",
		ofSession(awaits(func(ctx context.Context, s *backend.Session, known []backend.Entry) ([]backend.Entry, error) {
			now, err := s.Await(ctx, known...)
			if err == nil && known[0].Session == s.ID() && now[0].Rev > known[0].Rev {
				now = slices.Clone(now)
				now[0] = backend.Entry{Key: now[0].Key}
			}
			return now, err
		}))),
	mutant("own deletion not noticed", rules{Backend: {"await/wakes"}, "fair": {"data/leader-deleted", "term/once"}},
		"Await of an entry that its own session created does not return when somebody deletes the entry.",
		ofSession(awaits(func(ctx context.Context, s *backend.Session, known []backend.Entry) ([]backend.Entry, error) {
			now, err := s.Await(ctx, known...)
			if err == nil && len(known) == 1 && known[0].Session == s.ID() && !now[0].Exists() {
				return s.Await(ctx, backend.Entry{Key: "/never"})
			}
			return now, err
		}))),
}

// readMutants break rules about reads that do not wait.
var readMutants = []Mutant{
	mutant("read from a cache", rules{Backend: {"write/update"}},
		"Get returns what the previous Get of the key read.",
		ofSession(func(s *backend.Session, o *over) {
			var cache sync.Map
			on(backend.CallGet, func(ctx context.Context, s *backend.Session, c *backend.Call) error {
				err := c.By(ctx, s)
				if isNoEntry(err) {
					cache.Delete(c.Key)
				} else if old, had := cache.Swap(c.Key, c.Found); had {
					c.Found = old.(backend.Entry)
				}
				return err
			})(s, o)
		})),
	mutant("refused by what is not read", rules{Backend: {"read/decided"}},
		"A session whose commit was refused still reads the state from when it was opened.",
		ofSession(func(s *backend.Session, o *over) {
			var refused, done atomic.Bool
			all(commits(func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
				made, err := c.by(ctx, s)
				if err != nil {
					refused.Store(true)
				} else {
					done.Store(true)
				}
				return made, err
			}), on(backend.CallGet, func(ctx context.Context, s *backend.Session, c *backend.Call) error {
				if refused.Load() && !done.Load() {
					return backend.ErrNoEntry
				}
				return c.By(ctx, s)
			}))(s, o)
		})),
	mutant("listing upside down", rules{Backend: {"read/list", "list/await"}, "fair": {"view/candidates"}},
		"List returns the youngest entry first.",
		ofSession(answering(func(c *backend.Call) {
			c.Listing.Keys = slices.Clone(c.Listing.Keys) // it may be shared
			slices.Reverse(c.Listing.Keys)
		}, backend.CallList, backend.CallAwaitList))),
	mutant("entries beside the directory listed", rules{Backend: {"list/side-by-side"}},
		"List of a directory also returns the entries of the one whose name has a dash and a letter more.",
		ofSession(on(backend.CallList, func(ctx context.Context, s *backend.Session, c *backend.Call) error {
			err := c.By(ctx, s)
			if beside, also := s.List(ctx, c.Key+"-y"); err == nil && also == nil {
				c.Listing.Keys = slices.Concat(c.Listing.Keys, beside.Keys)
			}
			return err
		}))),
	mutant("foreign child taken for an entry", rules{Backend: {"read/foreign"}, "fair": {"data/foreign-children"}},
		"Predecessor treats a foreign child whose name ends in ten digits as an enqueued entry.",
		ofSession(on(backend.CallPredecessor, func(ctx context.Context, s *backend.Session, c *backend.Call) error {
			err := c.By(ctx, s)
			if err != nil || c.Found.Exists() {
				return err
			}
			if c.Found, err = s.Get(ctx, backend.Parent(c.Key)+"/n_0000000001"); isNoEntry(err) {
				return nil
			}
			return err
		}))),
	mutant("predecessor by the key alone", rules{Backend: {"read/predecessor"}},
		"For an incarnation that is gone, Predecessor returns the predecessor of the entry that now has its key.",
		ofSession(on(backend.CallPredecessor, func(ctx context.Context, s *backend.Session, c *backend.Call) (err error) {
			e, err := s.Get(ctx, c.Key)
			if err == nil {
				c.Found, err = s.Predecessor(ctx, e)
			}
			return err
		}))),
	mutant("predecessor of any kind", rules{Backend: {"read/predecessor"}},
		"For the oldest enqueued entry, Predecessor returns an older ephemeral entry of another kind beside it.",
		ofSession(on(backend.CallPredecessor, func(ctx context.Context, s *backend.Session, c *backend.Call) error {
			err := c.By(ctx, s)
			if err != nil || c.Found.Exists() {
				return err
			}
			_, beside, err := s.Survey(ctx, backend.Parent(c.Key), func(backend.Entry) string { return "" })
			for _, key := range beside {
				if e, err := s.Get(ctx, key); err == nil && e.Rev < c.Entry.Rev {
					c.Found = e
				}
			}
			return err
		}))),
	mutant("listings counted from the directory's beginning", rules{Backend: {"await/operator"}},
		"The revision of a listing begins at zero when its directory is made.",
		ofSession(func(s *backend.Session, o *over) {
			since := func(ctx context.Context, dir string) uint64 {
				e, _ := s.Get(ctx, dir) // zero if there is no entry
				return e.Rev
			}
			all(on(backend.CallList, func(ctx context.Context, s *backend.Session, c *backend.Call) error {
				err := c.By(ctx, s)
				c.Listing.Rev -= min(c.Listing.Rev, since(ctx, c.Key))
				return err
			}), on(backend.CallAwaitList, func(ctx context.Context, s *backend.Session, c *backend.Call) (err error) {
				known := c.KnownListing
				known.Rev += since(ctx, known.Dir)
				c.Listing, err = s.AwaitList(ctx, known)
				c.Listing.Rev -= min(c.Listing.Rev, since(ctx, known.Dir))
				return err
			}))(s, o)
		})),
	mutant("list read before it is watched", rules{Backend: {"list/nothing-missed"}},
		"AwaitList reads before it subscribes, and misses a change in between.",
		ofSession(on(backend.CallAwaitList, func(ctx context.Context, s *backend.Session, c *backend.Call) error {
			read, err := s.List(ctx, c.Key)
			if err == nil && read.Rev == c.KnownListing.Rev {
				gap()
				if read, err = s.List(ctx, c.Key); err == nil {
					read, err = s.AwaitList(ctx, read)
				}
			}
			c.Listing = read
			return err
		}))),
	mutant("list never waited for", rules{Backend: {"list/await"}},
		"AwaitList returns at once, even without a change.",
		ofSession(on(backend.CallAwaitList, func(ctx context.Context, s *backend.Session, c *backend.Call) (err error) {
			c.Listing, err = s.List(ctx, c.Key)
			return err
		}))),
	mutant("entry enqueued under another key first", rules{Backend: {"list/while-enqueued"}},
		"Enqueue creates an entry under one key, and then replaces it by an entry under another key.",
		ofSession(commits(func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
			made, err := c.by(ctx, s)
			if err != nil || !c.is(backend.OpEnqueue) {
				return made, err
			}
			gap()
			made, err = s.Commit(ctx, nil, backend.Delete(made[0]), c.ops[0])
			if err != nil {
				return nil, err
			}
			return made[1:], nil
		}))),
}
