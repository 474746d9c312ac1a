package driver_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/must"
)

// goroutine returns the name of the calling goroutine.
func goroutine() string {
	b := make([]byte, 64)
	name, _, _ := strings.Cut(string(b[:runtime.Stack(b, false)]), " [")
	return name
}

// openApart opens a session of memory's whose opening and calls run at.
func openApart(t *testing.T, at func()) *backend.Session {
	t.Helper()
	b := memory.New(memory.Options{}).Client("c")
	s := must.Get(b.Open(t.Context(), backend.OpenOptions{}))(t)
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return must.Get(driver.OpenApart(t.Context(), b, backend.OpenOptions{}, func(context.Context, time.Duration) (*backend.Session, error) {
		at()
		return s.Around(backend.Layer{Call: func(context.Context, *backend.Call, func(context.Context) error) error { at(); return nil }}), nil
	}))(t)
}

// The opening and requests run on goroutines of their own; calls that wait, discard or close run on the
// caller's.
func TestOpenApart(t *testing.T) {
	var at string
	s := openApart(t, func() { at = goroutine() })
	assert.NotEqual(t, goroutine(), at, "open")
	e := backend.Entry{Key: "/a/b"}
	for name, call := range map[string]func() error{
		"get":         func() error { _, err := s.Get(t.Context(), e.Key); return err },
		"survey":      func() error { _, _, err := s.Survey(t.Context(), e.Key, nil); return err },
		"list":        func() error { _, err := s.List(t.Context(), e.Key); return err },
		"predecessor": func() error { _, err := s.Predecessor(t.Context(), e); return err },
		"commit":      func() error { _, err := s.Commit(t.Context(), nil, backend.Delete(e)); return err },
	} {
		require.NoError(t, call(), name)
		assert.NotEqual(t, goroutine(), at, name)
	}
	for name, call := range map[string]func() error{
		"await":      func() error { _, err := s.Await(t.Context(), e); return err },
		"await list": func() error { _, err := s.AwaitList(t.Context(), backend.Listing{Dir: "/a"}); return err },
		"discard":    func() error { return s.Discard(t.Context(), e) },
		"close":      func() error { return s.Close(t.Context()) },
	} {
		require.NoError(t, call(), name)
		assert.Equal(t, goroutine(), at, name)
	}
}

// A panic below a request, for example in a client's interceptor, reaches the caller, and so does the end
// of the goroutine.
func TestApartPanics(t *testing.T) {
	end := func() {}
	s := openApart(t, func() { end() })
	end = func() { panic(errors.New("an interceptor's")) }
	func() {
		defer func() { assert.Contains(t, recover(), "an interceptor's\n\nin a request") }()
		_, _ = s.Get(t.Context(), "/a")
		t.Error("the call returned")
	}()
	end = runtime.Goexit
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = s.Get(t.Context(), "/a")
		t.Error("the call returned")
	}()
	<-ended
}
