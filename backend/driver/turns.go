package driver

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/elector-go/elector/backend"
)

// turns are the commits of a session that others wait for. Those that create or put the same entry run one
// after the other, until their outcome is known or what they may have left is removed. Two commits that ask
// for the same leave the same: if both replies were lost, nothing could tell whose entry it is, and one commit
// would take, or remove, what the other created.
type turns struct {
	mu     sync.Mutex
	taken  map[string]chan struct{} // by key; closed when it is given back
	doubts map[*doubt]struct{}
}

// A doubt is a commit that returned ErrIndeterminate.
type doubt struct {
	ops     []backend.Op
	settled chan struct{}
}

// TakeTurn blocks until it holds all keys that the ops create or put, and AwaitSettled returns. give gives the
// keys back, and may be called several times. The error is that of Over, or ErrUnavailable when another commit
// holds a key for longer than patience, which usually is the session's timeout: for example because what that
// commit left cannot be removed. After an error there is nothing to give back, and nothing was sent. A session
// whose service tells commits apart takes no turns, and begins its commits with AwaitSettled.
func (l *Life) TakeTurn(ctx context.Context, patience time.Duration, ops []backend.Op) (give func(), err error) {
	keys := exclusive(ops)
	for {
		if err := l.AwaitSettled(ctx, patience, ops); err != nil {
			return nil, err
		}
		for i, key := range keys { // in their order, so that commits cannot deadlock
			if err := l.takeKey(ctx, patience, key); err != nil {
				l.turns.give(keys[:i])
				return nil, err
			}
		}
		switch {
		case len(keys) == 0:
			return func() {}, nil
		case len(l.turns.ahead(ops)) == 0:
			return sync.OnceFunc(func() { l.turns.give(keys) }), nil
		}
		l.turns.give(keys) // to others that wait: an earlier commit was given up meanwhile
	}
}

func (l *Life) takeKey(ctx context.Context, patience time.Duration, key string) error {
	t := &l.turns
	for {
		t.mu.Lock()
		given, taken := t.taken[key]
		if !taken {
			if t.taken == nil {
				t.taken = make(map[string]chan struct{})
			}
			t.taken[key] = make(chan struct{})
			t.mu.Unlock()
			return nil
		}
		t.mu.Unlock()
		if err := l.awaitCommit(ctx, patience, given, key); err != nil {
			return err
		}
	}
}

// awaitCommit waits until an earlier commit on key is done.
func (l *Life) awaitCommit(ctx context.Context, patience time.Duration, done <-chan struct{}, key string) error {
	select {
	case <-done:
		return nil
	case <-time.After(patience):
		return fmt.Errorf("%w: an earlier commit on %s has not been settled for %v", backend.ErrUnavailable, key, patience)
	case <-ctx.Done():
	case <-l.Ctx.Done():
	}
	return l.Over(ctx)
}

func (t *turns) give(keys []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, key := range keys {
		close(t.taken[key])
		delete(t.taken, key)
	}
}

// exclusive returns the keys that a commit needs for itself, sorted.
func exclusive(ops []backend.Op) []string {
	var keys []string
	for _, op := range ops {
		if op.Kind == backend.OpCreateEphemeral || op.Kind == backend.OpCompareAndSet {
			keys = append(keys, op.Key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// Doubt notes a commit that returns ErrIndeterminate and may still be done: rule 5. Commits that begin
// later with an op on the same key wait until settled is called. Call Doubt before the commit returns, and
// settled when nothing of the commit can arrive any more; settled may be called several times. The code
// that finds that out, such as a job of a Reaper, must not wait for the doubt itself: it takes no turns.
func (l *Life) Doubt(ops []backend.Op) (settled func()) {
	t, d := &l.turns, &doubt{slices.Clone(ops), make(chan struct{})}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.doubts == nil {
		t.doubts = make(map[*doubt]struct{})
	}
	t.doubts[d] = struct{}{}
	return sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.doubts, d)
		close(d.settled)
	})
}

// AwaitSettled blocks while an earlier commit that might be done after the ops is in doubt. The errors are those
// of TakeTurn.
func (l *Life) AwaitSettled(ctx context.Context, patience time.Duration, ops []backend.Op) error {
	for d, key := range l.turns.ahead(ops) { // doubts noted from now on are not of earlier commits
		if err := l.awaitCommit(ctx, patience, d.settled, key); err != nil {
			return err
		}
	}
	return nil
}

// ahead returns the doubts that ops must wait for, each with a key that both write.
func (t *turns) ahead(ops []backend.Op) map[*doubt]string {
	all := make(map[*doubt]string)
	t.mu.Lock()
	defer t.mu.Unlock()
	for d := range t.doubts {
		for _, op := range ops {
			if slices.ContainsFunc(d.ops, func(earlier backend.Op) bool { return waitsFor(op, earlier) }) {
				all[d] = op.Key
			}
		}
	}
	return all
}

// waitsFor reports whether an earlier op might be done after o. It cannot if o deletes the incarnation that
// it is about: so a term ends without waiting for what was published in it.
func waitsFor(o, earlier backend.Op) bool {
	switch {
	case o.Key != earlier.Key, o.Kind == backend.OpEnqueue, earlier.Kind == backend.OpEnqueue: // an enqueued entry has a new key
		return false
	case o.Kind == backend.OpDelete:
		return o.Rev != earlier.Rev
	}
	return true
}
