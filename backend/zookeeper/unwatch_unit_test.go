package zookeeper

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
)

// A list that is asked for while its watch is being removed leaves no watch that is valid here and gone at
// the server. A caller whose ctx ends leaves its request behind, which may begin after the removal.
func TestListWhileItsWatchIsRemoved(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b := must.Get(New(Config{Servers: []string{servertest.SharedZooKeeper(t).Addr()}}))(t)
	opened := must.Get(b.Open(ctx, backend.OpenOptions{}))(t)
	defer func() { assert.NoError(t, opened.Close(ctx)) }()
	s := driver.Of[*session](opened)
	dir := fmt.Sprintf("/list-while-removed-%x", driver.NewNonce())
	must.Get(s.Commit(ctx, nil, backend.CompareAndSet(dir, nil, 0)))(t)
	r, key := &s.watches, watchKey{s.path(dir), childWatch}
	for range 100 {
		must.Get(s.listWatched(ctx, key))(t)
		r.mu.Lock()
		r.remove(r.of(key))
		require.True(t, r.of(key).removed)
		r.mu.Unlock()
		known := must.Get(s.listWatched(ctx, key))(t) // left behind by its caller
		waiting, end := context.WithTimeout(ctx, 5*time.Second)
		told := make(chan error, 1)
		go func() {
			_, err := s.AwaitList(waiting, known)
			told <- err
		}()
		time.Sleep(10 * time.Millisecond)
		must.Get(s.Commit(ctx, nil, backend.CreateEphemeral(dir+"/child", nil)))(t)
		require.NoError(t, <-told, "a change was missed")
		end()
		made := must.Get(s.Get(ctx, dir+"/child"))(t)
		must.Get(s.Commit(ctx, nil, backend.Delete(made)))(t)
	}
}
