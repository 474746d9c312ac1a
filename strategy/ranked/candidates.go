package ranked

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/layout"
	"github.com/elector-go/elector/strategy"
	"github.com/elector-go/elector/strategy/entries"
)

// A rival is a candidate as its entry describes it.
type rival struct {
	entry backend.Entry
	layout.Candidate
	rank  []int64
	since uint64 // when it came: the creation revision of its first entry
	told  uint64 // the version of the record that it has been told of
}

func rivalOf(e backend.Entry) rival {
	c := layout.DecodeCandidate(e.Value)
	r := rival{entry: e, Candidate: c, rank: c.Rank, since: c.Since, told: c.Told}
	if r.since == 0 {
		r.since = e.Rev
	}
	return r
}

func (r rival) exists() bool { return r.entry.Exists() }

// stands reports whether it is a candidate that may lead. An entry that nobody can read is none: nobody waits
// for it.
func (r rival) stands() bool { return r.entry.Session != "" && r.V > 0 && eligible(r.rank) }

// tell returns its entry's payload after it was told of a version of the record.
func (r rival) tell(version uint64) []byte {
	c := r.Candidate
	c.Told = version
	return c.Encode()
}

// before reports whether a comes before b in the order of succession.
func (s Strategy) before(c choice, a, b rival) bool {
	if c.prefers(a, b) || c.prefers(b, a) {
		return c.prefers(a, b)
	}
	if n := strings.Compare(a.ID, b.ID); s.ByID && n != 0 {
		return n < 0
	}
	return a.since < b.since
}

// A choice is the preference of people, as the election's record has it.
type choice struct {
	layout.Record
	designated string // the ID, or ""
	heir       *layout.Heir
}

// names returns how a choice names a candidate: 2 as the leader's heir, 1 as designated, 0 not at all.
func (c choice) names(r rival) int {
	switch {
	case c.heir != nil && c.heir.Rev == r.since:
		return 2
	case c.designated != "" && c.designated == r.ID:
		return 1
	}
	return 0
}

// prefers reports whether a is better than b, and not just first to come, or of the lesser ID.
func (c choice) prefers(a, b rival) bool {
	if x, y := c.names(a), c.names(b); x != y {
		return x > y
	}
	return compare(a.rank, b.rank) > 0
}

// withoutHeir returns the choice after the heir has had its turn, or while the leader leads.
func (c choice) withoutHeir() choice {
	c.heir, c.Record.Heir = nil, nil
	return c
}

// readChoice reads the record of the election whose directory is dir. The error is ErrNoParent if the
// election has gone, or has another directory.
func readChoice(ctx context.Context, s *backend.Session, dir string) (backend.Entry, choice, error) {
	entry, err := entries.Get(ctx, s, backend.Parent(dir))
	if err != nil {
		return entry, choice{}, err
	}
	c, err := decodeChoice(entry, dir)
	return entry, c, err
}

// decodeChoice is readChoice for a record that was read before.
func decodeChoice(entry backend.Entry, dir string) (choice, error) {
	record, err := layout.DecodeRecord(entry.Value)
	if err != nil || record.Dir != path.Base(dir) {
		return choice{}, fmt.Errorf("%w: the record at %s does not name it any more", backend.ErrNoParent, backend.Parent(dir))
	}
	c := choice{Record: record, heir: record.Heir}
	if record.Designated != nil {
		c.designated = record.Designated.ID
	}
	return c, nil
}

// Candidates lists the leader, then the candidates that wait: the best first, and those that never lead last.
// It reads each one's entry. A candidate that takes the seat or changes its rank meanwhile gets another
// entry, and is missed: then Candidates looks again, a few times.
func (s Strategy) Candidates(ctx context.Context, session *backend.Session, dir string) ([]strategy.Candidate, error) {
	const looks = 10
	for n := 1; ; n++ {
		seat, err := entries.Get(ctx, session, entries.SeatKey(dir))
		if err != nil {
			return nil, err
		}
		all, err := s.waiting(ctx, session, dir)
		if err != nil {
			return nil, err
		}
		now, err := entries.Get(ctx, session, seat.Key)
		if err != nil {
			return nil, err
		}
		if now.Rev == seat.Rev && !all.outdated || n == looks {
			return all.candidates(seat), nil
		}
	}
}

// A line is the candidates that wait, in the order of succession.
type line struct {
	rivals []rival
	choice choice
	// outdated is whether a listed entry was gone when it was read.
	outdated bool
}

func (l line) candidates(seat backend.Entry) []strategy.Candidate {
	var all []strategy.Candidate
	if seat.Session != "" {
		all = append(all, l.choice.candidate(rivalOf(seat), true))
	}
	for _, r := range l.rivals {
		all = append(all, l.choice.candidate(r, false))
	}
	return all
}

// waiting reads all candidates that wait.
func (s Strategy) waiting(ctx context.Context, session *backend.Session, dir string) (l line, err error) {
	listing, err := session.List(ctx, dir)
	if err != nil {
		return line{}, err
	}
	for _, key := range listing.Keys {
		e, err := entries.Get(ctx, session, key)
		if err != nil {
			return line{}, err
		}
		l.outdated = l.outdated || !e.Exists()
		if e.Session != "" {
			l.rivals = append(l.rivals, rivalOf(e))
		}
	}
	_, l.choice, err = readChoice(ctx, session, dir)
	if errors.Is(err, backend.ErrNoParent) {
		err = nil // no choice counts any more
	}
	slices.SortFunc(l.rivals, func(a, b rival) int {
		if a.stands() != b.stands() {
			if a.stands() {
				return -1
			}
			return 1
		}
		if s.before(l.choice, a, b) {
			return -1
		}
		return 1
	})
	return l, err
}

func (c choice) candidate(r rival, leads bool) strategy.Candidate {
	all := entries.Candidate(r.entry, leads)
	all.Rank, all.NeverLeads = r.rank, !eligible(r.rank)
	all.Designated = c.names(r) == 1
	return all
}

// Transfer names the heir in the election's record, and tells it, in one step. Nobody can take the seat
// without knowing that. The candidates between them are not affected. If Transfer fails and may have named
// somebody, it removes the name in the end.
func (s Strategy) Transfer(ctx context.Context, h *strategy.Handover) error {
	err := s.name(ctx, h)
	if ctx.Err() != nil || errors.Is(err, backend.ErrIndeterminate) {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		err = errors.Join(err, unname(late, h))
	}
	return err
}

// unname writes the record without an heir, even if it has none: that makes pending requests fail.
func unname(ctx context.Context, h *strategy.Handover) error {
	for {
		record, c, err := readChoice(ctx, h.Session, h.Dir)
		if err != nil {
			return err
		}
		_, err = h.Session.Commit(ctx, []backend.Condition{backend.IfExists(h.Seat)}, backend.CompareAndSet(record.Key, c.withoutHeir().Encode(), record.Version))
		switch {
		case errors.Is(err, backend.ErrCondition): // the next leader has removed it
			return nil
		case !errors.Is(err, backend.ErrConflict):
			return err
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// pause slows a loop in which another process makes progress each time that a round fails.
func pause(ctx context.Context) error {
	select {
	case <-time.After(20 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s Strategy) name(ctx context.Context, h *strategy.Handover) error {
	heir := rivalOf(h.Heir.Entry)
	for {
		all, err := s.waiting(ctx, h.Session, h.Dir)
		if err != nil {
			return err
		}
		// If its rank has changed, it has another entry.
		i := slices.IndexFunc(all.rivals, func(r rival) bool { return r.since == heir.since })
		if i < 0 && !all.outdated {
			return fmt.Errorf("%w: %q has gone", strategy.ErrNoCandidate, h.Heir.ID)
		}
		if i >= 0 {
			if heir = all.rivals[i]; !heir.stands() {
				return fmt.Errorf("%w: %q has rank %v, and never leads", strategy.ErrNoCandidate, h.Heir.ID, heir.rank)
			}
			if err := bequeath(ctx, h, heir); !changed(err) {
				return err
			}
			// The record or the heir has changed, or the seat is gone.
			seat, err := entries.Get(ctx, h.Session, h.Seat.Key)
			if err != nil {
				return err
			}
			if seat.Rev != h.Seat.Rev {
				return fmt.Errorf("%w: the seat is another's", strategy.ErrDeposed)
			}
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

func changed(err error) bool {
	return errors.Is(err, backend.ErrConflict) || errors.Is(err, backend.ErrNoEntry) || errors.Is(err, backend.ErrCondition)
}

// bequeath is name for an heir in its present state.
func bequeath(ctx context.Context, h *strategy.Handover, heir rival) error {
	record, c, err := readChoice(ctx, h.Session, h.Dir)
	if err != nil {
		return err
	}
	c.Record.Heir = &layout.Heir{Key: heir.entry.Key, Rev: heir.since}
	_, err = h.Session.Commit(ctx, []backend.Condition{backend.IfUnchanged(heir.entry), backend.IfExists(h.Seat)},
		backend.CompareAndSet(record.Key, c.Record.Encode(), record.Version),
		backend.Update(heir.entry, heir.tell(record.Version)))
	return err
}
