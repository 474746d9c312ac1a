package dial_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/services"
	"github.com/elector-go/elector/internal/wait"
)

// TestCauses checks that the error says what is wrong with the service, for an Open with a time limit and
// for a candidate that continues to try.
func TestCauses(t *testing.T) {
	for _, scheme := range services.Schemes() {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			const cause = "connection refused"
			b := open(t, scheme+"://"+at(port(t)))
			says := func(err error) bool { return err != nil && strings.Contains(err.Error(), cause) }
			wait.For(t, "Open says why", func() bool { // the time limit may be over before the service is asked
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := b.Open(ctx, backend.OpenOptions{})
				require.Error(t, err)
				assert.NotRegexp(t, "(context deadline exceeded.*){2}", err.Error())
				return says(err)
			})

			retries := make(chan error, 100)
			e := stand(t, b, "/jobs/one", elector.Hooks{Retry: func(r elector.RetryEvent) { retries <- r.Err }})
			campaigning, stop := context.WithCancel(t.Context())
			done := wait.Later(func() (*elector.Term, error) { return e.Campaign(campaigning) })
			wait.For(t, "the hook says why", func() bool { return says(<-retries) })
			wait.For(t, "the status says why", func() bool { return says(e.Status().Err) })
			stop()
			assert.ErrorIs(t, (<-done).Err, context.Canceled)
		})
	}
}
