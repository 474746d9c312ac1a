package driver_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

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

// exits is a driver whose calls end their goroutine.
type exits struct{ backend.Driver }

func (exits) Get(context.Context, string) (e backend.Entry, err error) {
	runtime.Goexit()
	return e, nil
}
func (exits) Survey(context.Context, string, func(backend.Entry) string) (e backend.Entry, s []string, err error) {
	runtime.Goexit()
	return e, s, nil
}
func (exits) List(context.Context, string) (l backend.Listing, err error) {
	runtime.Goexit()
	return l, nil
}
func (exits) AwaitList(context.Context, backend.Listing) (l backend.Listing, err error) {
	runtime.Goexit()
	return l, nil
}
func (exits) Predecessor(context.Context, backend.Entry) (e backend.Entry, err error) {
	runtime.Goexit()
	return e, nil
}
func (exits) Await(context.Context, ...backend.Entry) (e []backend.Entry, err error) {
	runtime.Goexit()
	return e, nil
}
func (exits) Commit(context.Context, []backend.Condition, ...backend.Op) (e []backend.Entry, err error) {
	runtime.Goexit()
	return e, nil
}
func (exits) Discard(context.Context, backend.Entry) error { runtime.Goexit(); return nil }
func (exits) Close(context.Context) error                  { runtime.Goexit(); return nil }

// The opening and a request run on goroutines of their own, and what waits, discards or closes on the
// caller's, which ends here with it.
func TestOpenApart(t *testing.T) {
	b := memory.New(memory.Options{}).Client("c")
	_, err := driver.OpenApart(t.Context(), b, backend.OpenOptions{}, func(context.Context, time.Duration) (exits, error) {
		runtime.Goexit()
		return exits{}, nil
	})
	require.ErrorContains(t, err, "ended its goroutine")

	s, err := b.Open(t.Context(), backend.OpenOptions{})
	require.NoError(t, err)
	apart, err := driver.OpenApart(t.Context(), b, backend.OpenOptions{}, func(context.Context, time.Duration) (exits, error) {
		return exits{s.Driver()}, nil
	})
	require.NoError(t, err)
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
