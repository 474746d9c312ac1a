package backend

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Turns has the commits of a session that create or put the same entry go one after
// the other, until their outcome is known or what they may have left is removed. Two
// that ask for the same leave the same: if the replies to both were lost nothing could
// tell whose it is, and one would take, or remove, what the other has made.
//
// Its zero value is ready; a session whose service tells commits apart needs none.
type Turns struct {
	mu    sync.Mutex
	taken map[string]chan struct{} // by key; closed when it is given back
}

// Take blocks until the ops have all keys that they create or put to themselves. give
// gives them back, and may be called several times. The error is ErrSessionLost when
// lost is closed, ctx's when that ends, and ErrUnavailable when one who has a key keeps it
// for longer than patience, which is the session's timeout: what that one has left cannot be
// removed, for example. Then there is nothing to give back, and nothing was sent.
func (t *Turns) Take(ctx context.Context, lost <-chan struct{}, patience time.Duration, ops []Op) (give func(), err error) {
	keys := exclusive(ops)
	if len(keys) == 0 {
		return func() {}, nil
	}
	for i, key := range keys { // in their order, so that nobody waits in a circle
		if err := t.takeOne(ctx, lost, patience, key); err != nil {
			t.give(keys[:i])
			return nil, err
		}
	}
	return sync.OnceFunc(func() { t.give(keys) }), nil
}

func (t *Turns) takeOne(ctx context.Context, lost <-chan struct{}, patience time.Duration, key string) error {
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
		select {
		case <-given:
		case <-time.After(patience):
			return fmt.Errorf("%w: an earlier commit on %s has not been settled for %v", ErrUnavailable, key, patience)
		case <-lost:
			return ErrSessionLost
		case <-ctx.Done():
			return ContextError(ctx)
		}
	}
}

func (t *Turns) give(keys []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, key := range keys {
		close(t.taken[key])
		delete(t.taken, key)
	}
}

// exclusive are the keys that a commit needs for itself, sorted.
func exclusive(ops []Op) []string {
	var keys []string
	for _, op := range ops {
		if op.Kind == OpCreate || op.Kind == OpPut {
			keys = append(keys, op.Key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}
