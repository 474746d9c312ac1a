package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/elector-go/elector/backend"
)

// commit is Session.Commit for ops that may be done twice: it tries again while the outcome is unknown.
func commit(ctx context.Context, s *backend.Session, conditions []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
	for {
		made, err := s.Commit(ctx, conditions, ops...)
		if !again(ctx, err) {
			return made, err
		}
	}
}

// again reports whether a commit that ended with err may be tried again, if it may be done twice. The session
// is live and ctx has not ended: somebody has removed what could tell the outcome.
func again(ctx context.Context, err error) bool {
	return errors.Is(err, backend.ErrIndeterminate) && !errors.Is(err, backend.ErrSessionLost) && ctx.Err() == nil
}

// refused reports whether a commit was refused because something differs from what was read: read again.
func refused(err error) bool {
	return errors.Is(err, backend.ErrCondition) || errors.Is(err, backend.ErrConflict) || errors.Is(err, backend.ErrNoEntry)
}

// makeDir creates a persistent entry as a directory for others, unless there is one. Nobody removes it: that
// would require knowing that nobody is about to use it.
func makeDir(ctx context.Context, s *backend.Session, dir string) error {
	_, err := commit(ctx, s, nil, backend.CompareAndSet(dir, nil, 0))
	if !errors.Is(err, backend.ErrConflict) {
		return err
	}
	e, err := read(ctx, s, dir)
	if e.Session != "" { // it can have no children, and trying again would not help
		err = fmt.Errorf("%s is an entry of a session: %w", dir, backend.ErrNoParent)
	}
	return err
}

// add creates ephemeral entries, if all conditions hold, and the missing directories. A lost reply leaves no
// second entry: the session removes what it has not reported. ErrExists may be due to such an entry.
func add(ctx context.Context, s *backend.Session, conditions []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
	for {
		made, err := commit(ctx, s, conditions, ops...)
		if !errors.Is(err, backend.ErrNoParent) {
			return made, err
		}
		for _, op := range ops {
			dir := op.Key // of Enqueue
			if op.Kind == backend.OpCreateEphemeral {
				dir = backend.Parent(op.Key)
			}
			if err := makeDir(ctx, s, dir); err != nil {
				return nil, err
			}
		}
	}
}

// one returns the entry of a commit that creates one.
func one(made []backend.Entry, err error) (backend.Entry, error) {
	if err != nil {
		return backend.Entry{}, err
	}
	return made[0], nil
}

// remove removes this incarnation of a persistent entry. It is no error if it is gone.
func remove(ctx context.Context, s *backend.Session, e backend.Entry) error {
	_, err := commit(ctx, s, nil, backend.Delete(e))
	if errors.Is(err, backend.ErrNoEntry) {
		return nil
	}
	return err
}

// read is Get, but returns an entry with a zero Rev if there is none.
func read(ctx context.Context, s *backend.Session, key string) (backend.Entry, error) {
	e, err := s.Get(ctx, key)
	if errors.Is(err, backend.ErrNoEntry) {
		return backend.Entry{Key: key}, nil
	}
	return e, err
}

// write overwrites what was read, if that is unchanged: the same version of the same incarnation, or still
// nothing. See refused.
func write(ctx context.Context, s *backend.Session, was backend.Entry, value []byte) (backend.Entry, error) {
	conditions, op := []backend.Condition(nil), backend.CompareAndSet(was.Key, value, 0)
	if was.Exists() {
		conditions, op = []backend.Condition{backend.IfUnchanged(was)}, backend.Update(was, value)
	}
	return one(s.Commit(ctx, conditions, op))
}

// encode returns the value of an entry.
func encode(v any) []byte {
	value, err := json.Marshal(v)
	if err != nil {
		panic(err) // recipes have no such types
	}
	return value
}

// decode reads an entry's value. It returns zero and false for none, or for a stranger's.
func decode[T any](e backend.Entry) (v T, ok bool) {
	if json.Unmarshal(e.Value, &v) != nil {
		return *new(T), false
	}
	return v, true
}

// oldest reads the n oldest entries of a line, or all if there are fewer. A persistent entry is a stranger's,
// and not part of the line: see backend.Listing.
func oldest(ctx context.Context, s *backend.Session, dir string, n int) ([]backend.Entry, error) {
	for {
		line, err := s.List(ctx, dir)
		var entries []backend.Entry
		for i := 0; len(entries) < n && i < len(line.Keys) && err == nil; i++ {
			var e backend.Entry
			if e, err = s.Get(ctx, line.Keys[i]); e.Session != "" {
				entries = append(entries, e)
			}
		}
		if !errors.Is(err, backend.ErrNoEntry) { // otherwise one has gone meanwhile: again
			return entries, err
		}
	}
}

// passOver finds the next number above n that names an entry directly under dir, at most end, and returns the
// one before. With more than a thousand entries, it returns n: see backend.Session.Children.
func passOver(ctx context.Context, s *backend.Session, dir string, n, end uint64) (uint64, error) {
	keys, more, err := s.Children(ctx, dir, 1000)
	if err != nil || more {
		return n, err
	}
	for _, key := range keys {
		if i, err := strconv.ParseUint(key[len(dir)+1:], 10, 64); err == nil && i > n {
			end = min(end, i)
		}
	}
	return end - 1, nil
}

// allExist returns the conditions that all these incarnations exist.
func allExist(entries []backend.Entry) (all []backend.Condition) {
	for _, e := range entries {
		all = append(all, backend.IfExists(e))
	}
	return all
}

// withdraw removes ephemeral entries of the session, the last first, even after ctx has ended: a waiter that
// gives up must not block others. If it takes longer than 5 seconds, the session continues in the background.
func withdraw(ctx context.Context, s *backend.Session, entries ...backend.Entry) (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	for _, e := range slices.Backward(entries) {
		err = errors.Join(err, s.Discard(ctx, e))
	}
	if errors.Is(err, backend.ErrSessionLost) {
		return nil // the service removes them
	}
	return err
}

// awaitGone blocks until one of these incarnations is gone, and returns which one: the first if there are
// several. Await reports changes in their order: rule 4 of package backend.
func awaitGone(ctx context.Context, s *backend.Session, entries ...backend.Entry) (int, error) {
	for known := entries; ; {
		now, err := s.Await(ctx, known...)
		if err != nil {
			return 0, err
		}
		for i := range now {
			if now[i].Rev != entries[i].Rev { // gone, or a successor under the same key
				return i, nil
			}
		}
		known = now
	}
}

// awaitFree blocks until there is nothing under key, or was for a moment. The first Await reads and
// subscribes in one step, so that no change between a read and a wait is missed.
func awaitFree(ctx context.Context, s *backend.Session, key string) error {
	now, err := s.Await(ctx, backend.Unknown(key))
	if err != nil || !now[0].Exists() {
		return err
	}
	_, err = awaitGone(ctx, s, now[0])
	return err
}

// A Hold is what a session holds by its own entries: a lock, or a part of one. Its context is for the work.
// It ends with the context of the call that took the Hold; when the session is lost, which is before the
// service can give what is held to another; and when somebody has removed an entry, which is noticed
// afterwards. Pending requests at that instant may arrive later: writes outside the service must carry the
// token, and writes in it the conditions.
type Hold struct {
	context.Context
	session *backend.Session
	entries []backend.Entry
	end     context.CancelCauseFunc
}

// errTaken is the cause of a Hold's end if the session is not known to be lost. A process that was paused may
// see the entry go before it hears that the service has ended its session.
var errTaken = errors.New("the entry of what is held is gone: somebody has removed it, or ended the session")

// hold begins a Hold. It ends with ctx, but its entries stay until Release, or as long as the session.
func hold(ctx context.Context, s *backend.Session, entries ...backend.Entry) *Hold {
	h := &Hold{session: s, entries: entries}
	h.Context, h.end = context.WithCancelCause(ctx)
	go func() {
		_, err := awaitGone(h, s, entries...)
		h.end(cmp.Or(err, errTaken))
	}()
	return h
}

// Token returns a number that rises from each holder to the next.
func (h *Hold) Token() uint64 { return h.entries[0].Rev }

// Conditions hold as long as the Hold does: put them into each commit of the work.
func (h *Hold) Conditions() []backend.Condition { return allExist(h.entries) }

// Release ends the context, and then removes the entries. The work must be done by then.
func (h *Hold) Release(ctx context.Context) error {
	h.end(context.Canceled)
	return withdraw(ctx, h.session, h.entries...)
}

// inLine stands in a line until its turn, and holds its place from then on. stand creates the entries. turn
// blocks, and returns ErrNoEntry if one of them is gone: then inLine stands again, at the end.
func inLine(ctx context.Context, s *backend.Session, stand func() ([]backend.Entry, error), turn func(me []backend.Entry) error) (*Hold, error) {
	for {
		me, err := stand()
		if err != nil {
			return nil, err
		}
		err = turn(me)
		if err == nil {
			return hold(ctx, s, me...), nil
		}
		left := withdraw(ctx, s, me...)
		if !errors.Is(err, backend.ErrNoEntry) {
			return nil, errors.Join(err, left)
		}
	}
}

// sleep blocks for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
