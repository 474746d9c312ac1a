package etcd

import (
	"context"
	"slices"
	"sync"

	"github.com/elector-go/elector/backend"
)

// turns has the commits of a session that create or put the same entry go one after
// the other, until their outcome is known or what they may have left is removed. Two
// that ask for the same leave the same: if the replies to both were lost nothing could
// tell whose it is, and one would take, or remove, what the other has made.
type turns struct {
	mu    sync.Mutex
	taken map[string]chan struct{} // by key; closed when it is given back
}

// take blocks until all keys are free. give gives them back, once.
func (t *turns) take(ctx context.Context, lost <-chan struct{}, keys []string) (give func(), err error) {
	for i, key := range keys { // in their order, so that nobody waits in a circle
		if err := t.takeOne(ctx, lost, key); err != nil {
			t.give(keys[:i])
			return nil, err
		}
	}
	return sync.OnceFunc(func() { t.give(keys) }), nil
}

func (t *turns) takeOne(ctx context.Context, lost <-chan struct{}, key string) error {
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
		case <-lost:
			return errClosed // the caller says why the session is lost
		case <-ctx.Done():
			return ended(ctx)
		}
	}
}

func (t *turns) give(keys []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, key := range keys {
		close(t.taken[key])
		delete(t.taken, key)
	}
}

// exclusive are the keys that a commit needs for itself, sorted.
func exclusive(ops []backend.Op) []string {
	var keys []string
	for _, op := range ops {
		if op.Kind == backend.OpCreate || op.Kind == backend.OpPut {
			keys = append(keys, op.Key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}
