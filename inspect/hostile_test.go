package inspect_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/inspect"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/strategy/fair"
)

// A record that names no valid directory is no election's, and a watch continues until the record is
// mended.
func TestRecordOfNoDirectory(t *testing.T) {
	for _, dir := range []string{`\u001b[2J`, `\u0000`, strings.Repeat("x", backend.MaxKey)} {
		bubble(t, inspect.Options{}, func(s *stage) {
			require.NoError(s, s.service.Put(path, []byte(`{"v":1,"strategy":"fair","dir":"`+dir+`"}`)))
			_, err := s.in.Leader(s.Context(), path)
			require.ErrorIs(s, err, elector.ErrNoElection)
			assert.NotErrorIs(s, err, backend.ErrBadKey)
			assert.ErrorContains(s, err, "directory")
			l := s.watch(inspect.WatchOptions{Candidates: true})
			synctest.Wait()
			require.NoError(s, s.service.Put(path, nil))
			s.stand(fair.Strategy{}, "7")
			time.Sleep(time.Second)
			synctest.Wait()
			assert.Equal(s, "7", l.last().Leader.ID)
			assert.Equal(s, "-", l.said()[0])
		})
	}
}

// If something that no candidate made is where Remove does not reach, the error does not blame processes.
func TestRemoveBelowStrangers(t *testing.T) {
	bubble(t, inspect.Options{}, func(s *stage) {
		require.NoError(s, s.service.Put(path, []byte(`{"v":1,"strategy":"fair","dir":"e1"}`)))
		put(s.T, s.service, path+"/e1", path+"/e1/x/y")
		_, err := s.in.Remove(s.Context(), path, inspect.RemoveOptions{Evict: true})
		require.ErrorIs(s, err, elector.ErrInUse)
		assert.ErrorContains(s, err, "by hand")
		assert.NotContains(s, err.Error(), "processes")
	})
}

// A waiting candidate that Remove evicts founds the election again, perhaps before the record is gone.
func TestRemoveWhatIsFoundedAgainMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		require.NoError(t, service.Put(path, []byte(`{"v":1,"strategy":"fair","dir":"e1"}`)))
		put(t, service, path+"/e1")
		left := must.Get(service.Client("left").Open(t.Context(), backend.OpenOptions{TTL: time.Hour}))(t)
		defer func() { assert.NoError(t, left.Close(context.Background())) }()
		var once sync.Once
		meanwhile := func() {
			require.NoError(t, service.Put(path, []byte(`{"v":1,"strategy":"fair","dir":"e2"}`)))
			put(t, service, path+"/e2")
			assert.NoError(t, must.Err(left.Commit(t.Context(), nil, backend.Enqueue(path+"/e2", nil))))
		}
		in := inspector(t, backend.Intercept(service.Client("operator"), func(ctx context.Context, c *backend.Call, next func(context.Context) error) error {
			if c.Kind == backend.CallCommit && len(c.Ops) == 1 && c.Ops[0].Kind == backend.OpDelete && c.Ops[0].Key == path {
				once.Do(meanwhile)
			}
			return next(ctx)
		}), inspect.Options{})
		gone := must.Get(in.Remove(t.Context(), path, inspect.RemoveOptions{Evict: true}))(t)
		assert.Len(t, gone.Entries, 1)
		assert.Empty(t, gone.Kept)
		assert.ErrorIs(t, must.Err(in.Leader(t.Context(), path)), elector.ErrNoElection)
	})
}
