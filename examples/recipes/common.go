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

// again tells whether a commit may be tried again that ended with err, if it may be done twice.
// The session is live and ctx has not ended: somebody has removed what could tell the outcome.
func again(ctx context.Context, err error) bool {
	return errors.Is(err, backend.ErrIndeterminate) && !errors.Is(err, backend.ErrSessionLost) && ctx.Err() == nil
}

// refused tells whether a commit has not been done because something is not as it was read: read again.
func refused(err error) bool {
	return errors.Is(err, backend.ErrCondition) || errors.Is(err, backend.ErrConflict) || errors.Is(err, backend.ErrNoEntry)
}

// makeDir makes a persistent entry to have others in, unless there is one. Nobody removes it: that
// would take knowing that nobody is about to use it.
func makeDir(ctx context.Context, s *backend.Session, dir string) error {
	_, err := commit(ctx, s, nil, backend.CompareAndSet(dir, nil, 0))
	if !errors.Is(err, backend.ErrConflict) {
		return err
	}
	e, err := read(ctx, s, dir)
	if e.Session != "" { // nothing can stand in it, and to try again would be of no use
		err = fmt.Errorf("%s is an entry of a session: %w", dir, backend.ErrNoParent)
	}
	return err
}

// add makes ephemeral entries, if all conditions hold, and the directories that are missing. A lost reply leaves no
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

// one is the entry of a commit that makes one.
func one(made []backend.Entry, err error) (backend.Entry, error) {
	if err != nil {
		return backend.Entry{}, err
	}
	return made[0], nil
}

// remove removes this incarnation of a persistent entry. It is no error if another has removed it.
func remove(ctx context.Context, s *backend.Session, e backend.Entry) error {
	_, err := commit(ctx, s, nil, backend.Delete(e))
	if errors.Is(err, backend.ErrNoEntry) {
		return nil
	}
	return err
}

// read is Get, and the entry has a zero Rev where there is none.
func read(ctx context.Context, s *backend.Session, key string) (backend.Entry, error) {
	e, err := s.Get(ctx, key)
	if errors.Is(err, backend.ErrNoEntry) {
		return backend.Entry{Key: key}, nil
	}
	return e, err
}

// write writes over what was read, if that is unchanged: the same version of the same incarnation, or
// still nothing. See refused.
func write(ctx context.Context, s *backend.Session, was backend.Entry, value []byte) (backend.Entry, error) {
	conditions, op := []backend.Condition(nil), backend.CompareAndSet(was.Key, value, 0)
	if was.Exists() {
		conditions, op = []backend.Condition{backend.IfUnchanged(was)}, backend.Update(was, value)
	}
	return one(s.Commit(ctx, conditions, op))
}

// encode is the value of an entry.
func encode(v any) []byte {
	value, err := json.Marshal(v)
	if err != nil {
		panic(err) // recipes have no such types
	}
	return value
}

// decode reads the value of an entry. It is zero, and not ok, where there is none or it is of another kind: somebody's.
func decode[T any](e backend.Entry) (v T, ok bool) {
	if json.Unmarshal(e.Value, &v) != nil {
		return *new(T), false
	}
	return v, true
}

// oldest reads the n oldest entries of a line, or all if there are fewer. A persistent one is a stranger's,
// and no entry of the line: see backend.Listing.
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

// passOver looks for the next number above n that is the name of an entry directly under dir, or for end, and returns the
// one before it. Where more than a thousand stand, it returns n: see backend.Session.Children.
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

// allExist are the conditions that all these incarnations stand.
func allExist(entries []backend.Entry) (all []backend.Condition) {
	for _, e := range entries {
		all = append(all, backend.IfExists(e))
	}
	return all
}

// withdraw removes ephemeral entries of the session, the last first, though ctx may have ended: a
// waiter that gives up must not stand in the way of others. If it takes longer than a few seconds, the session goes
// on with it in the background.
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

// awaitGone blocks until one of these incarnations is gone, and returns which, the first one if
// there are several. It tells of changes in their order: rule 4 of package backend.
func awaitGone(ctx context.Context, s *backend.Session, entries ...backend.Entry) (int, error) {
	for known := entries; ; {
		now, err := s.Await(ctx, known...)
		if err != nil {
			return 0, err
		}
		for i := range now {
			if now[i].Rev != entries[i].Rev { // nothing, or a successor under the same key
				return i, nil
			}
		}
		known = now
	}
}

// awaitFree blocks until there is nothing under key, or has been for a moment. The first Await reads
// and subscribes in one, so that no change between a read and a wait is missed.
func awaitFree(ctx context.Context, s *backend.Session, key string) error {
	now, err := s.Await(ctx, backend.Unknown(key))
	if err != nil || !now[0].Exists() {
		return err
	}
	_, err = awaitGone(ctx, s, now[0])
	return err
}

// A Hold is what a session holds by entries of its own: a lock, or a part of one. Its context is
// for the work. It ends with the context of the call that took it; when the session is lost, which is before
// the service can give away what is held; and when somebody has removed an entry, which is afterwards. What is
// under way at that instant may arrive later: writes outside the service carry the token, and writes in it the
// conditions.
type Hold struct {
	context.Context
	session *backend.Session
	entries []backend.Entry
	end     context.CancelCauseFunc
}

// errTaken is the cause of a Hold's end where the session is not known to be lost. A process that was paused may
// see the entry go before it hears that the service has ended its session.
var errTaken = errors.New("the entry of what is held is gone: somebody has removed it, or ended the session")

// hold begins a Hold. It ends with ctx, but its entries stand until Release, or as long as the session.
func hold(ctx context.Context, s *backend.Session, entries ...backend.Entry) *Hold {
	h := &Hold{session: s, entries: entries}
	h.Context, h.end = context.WithCancelCause(ctx)
	go func() {
		_, err := awaitGone(h, s, entries...)
		h.end(cmp.Or(err, errTaken))
	}()
	return h
}

// Token rises from each holder to the next.
func (h *Hold) Token() uint64 { return h.entries[0].Rev }

// Conditions hold while it is held: put them into each commit of the work.
func (h *Hold) Conditions() []backend.Condition { return allExist(h.entries) }

// Release ends the context, and then gives back what is held. The work must be done by then.
func (h *Hold) Release(ctx context.Context) error {
	h.end(context.Canceled)
	return withdraw(ctx, h.session, h.entries...)
}

// inLine stands in a line until its turn comes, and holds its place from then on. stand makes the entries. turn blocks, and
// returns ErrNoEntry if somebody has removed one of them: then it stands again, at the end.
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
