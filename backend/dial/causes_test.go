package dial_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/wait"
)

// TestCauses holds that all who cannot open a session say what is wrong with the service: the session
// of a call that has a time limit, and a candidate, which goes on trying.
func TestCauses(t *testing.T) {
	for _, scheme := range []string{"zk", "etcd", "consul"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			const cause = "connection refused"
			b := open(t, scheme+"://"+at(port(t)))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := b.Open(ctx, backend.OpenOptions{})
			assert.ErrorContains(t, err, cause)
			assert.NotRegexp(t, "(context deadline exceeded.*){2}", err.Error())

			retries := make(chan error, 100)
			e := stand(t, b, "/jobs/one", elector.Hooks{Retry: func(r elector.RetryEvent) { retries <- r.Err }})
			campaigning, stop := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				_, err := e.Campaign(campaigning)
				done <- err
			}()
			select {
			case err := <-retries:
				assert.ErrorContains(t, err, cause)
			case <-time.After(wait.Patience):
				t.Error("nothing is said")
			}
			require.Eventually(t, func() bool { return e.Status().Err != nil }, wait.Patience, 10*time.Millisecond)
			assert.ErrorContains(t, e.Status().Err, cause)
			stop()
			assert.ErrorIs(t, <-done, context.Canceled)
		})
	}
}
