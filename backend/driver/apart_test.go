package driver_test

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
	"github.com/elector-go/elector/backend/memory"
)

func TestApart(t *testing.T) {
	n, err := driver.Apart(func() (int, error) { return 1, nil })
	assert.Equal(t, 1, n)
	require.NoError(t, err)
	why := errors.New("why")
	_, err = driver.Apart(func() (int, error) { return 0, why })
	require.ErrorIs(t, err, why)
	_, err = driver.Apart(func() (int, error) { runtime.Goexit(); return 0, nil })
	require.ErrorContains(t, err, "ended its goroutine")
}

// A request runs on a goroutine of its own, and what waits, discards or closes on the caller's,
// which ends here with it.
func TestEachApart(t *testing.T) {
	b := memory.New(memory.Options{}).Client("c")
	s, err := b.Open(t.Context(), backend.OpenOptions{})
	require.NoError(t, err)
	apart := driver.EachApart(s.Around(backend.Layer{Call: func(context.Context, *backend.Call, func(context.Context) error) error {
		runtime.Goexit()
		return nil
	}}))
	e := backend.Entry{Key: "/a/b"}
	for name, call := range map[string]func() error{
		"get":         func() error { _, err := apart.Get(t.Context(), e.Key); return err },
		"survey":      func() error { _, _, err := apart.Survey(t.Context(), e.Key, nil); return err },
		"list":        func() error { _, err := apart.List(t.Context(), e.Key); return err },
		"predecessor": func() error { _, err := apart.Predecessor(t.Context(), e); return err },
		"commit":      func() error { _, err := apart.Commit(t.Context(), nil, backend.Delete(e)); return err },
	} {
		assert.ErrorContains(t, call(), "ended its goroutine", name)
	}
	for name, call := range map[string]func() error{
		"await":      func() error { _, err := apart.Await(t.Context(), e); return err },
		"await list": func() error { _, err := apart.AwaitList(t.Context(), backend.Listing{Dir: "/a"}); return err },
		"discard":    func() error { return apart.Discard(t.Context(), e) },
		"close":      func() error { return apart.Close(t.Context()) },
	} {
		ended, returned := make(chan struct{}), false
		go func() {
			defer close(ended)
			_ = call()
			returned = true
		}()
		<-ended
		assert.False(t, returned, name)
	}
	require.NoError(t, s.Close(t.Context()))
}
