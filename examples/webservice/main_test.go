package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/memory"
)

// start makes one process take part until the test ends, or stop is called.
func start(t *testing.T, processes *sync.WaitGroup, b *memory.Client, address string) (h http.Handler, stop func()) {
	e, h, err := newService(b, address)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	processes.Go(func() {
		assert.ErrorIs(t, elector.Run(ctx, e, lead), context.Canceled)
		_ = e.Close(ctx) // one that is cut off cannot confirm
	})
	time.Sleep(time.Second) // it leads, or waits
	return h, stop
}

func ask(h http.Handler, method, path, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return w
}

func TestTakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		var processes sync.WaitGroup
		defer processes.Wait()
		anna := service.Client("anna")
		a, stopA := start(t, &processes, anna, "anna:80")
		defer stopA()
		b, stopB := start(t, &processes, service.Client("ben"), "ben:80")
		defer stopB()

		assert.Equal(t, http.StatusOK, ask(a, "PUT", "/notes/x", "one").Code)
		assert.Equal(t, "one", ask(a, "GET", "/notes/x", "").Body.String())
		assert.Equal(t, http.StatusNotFound, ask(a, "GET", "/notes/y", "").Code)
		assert.Equal(t, http.StatusBadRequest, ask(a, "PUT", "/notes/x", strings.Repeat("x", 65<<10)).Code)
		sent := ask(b, "PUT", "/notes/x", "two")
		assert.Equal(t, http.StatusTemporaryRedirect, sent.Code)
		assert.Equal(t, "http://anna:80/notes/x", sent.Header().Get("Location"))
		assert.Contains(t, ask(a, "GET", "/metrics", "").Body.String(), `elector_`)

		anna.Suspend() // her link goes dead without a word
		time.Sleep(20 * time.Second)
		assert.NotEqual(t, http.StatusOK, ask(a, "PUT", "/notes/x", "late").Code)
		assert.Equal(t, http.StatusServiceUnavailable, ask(a, "GET", "/leader", "").Code)
		assert.Equal(t, "one", ask(b, "GET", "/notes/x", "").Body.String())
		assert.Equal(t, http.StatusOK, ask(b, "PUT", "/notes/x", "two").Code)

		// SIGTERM hands over at once.
		anna.Resume()
		time.Sleep(10 * time.Second) // she stands again
		stopB()
		synctest.Wait()
		assert.Equal(t, "two", ask(a, "GET", "/notes/x", "").Body.String())
	})
}
