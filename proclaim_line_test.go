package elector_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
)

// The marks of other leaders that share the session, which the service refuses for long, do not keep a leader
// from publishing a value.
func TestProclaimBesideMarksThatArePending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := backend.Share(backend.Intercept(memory.New(memory.Options{}), func(ctx context.Context, c *backend.Call, next func(context.Context) error) error {
			if c.Kind == backend.CallCommit && len(c.Ops) == 1 && c.Ops[0].Kind == backend.OpUpdate && strings.HasPrefix(c.Ops[0].Key, "/stuck") {
				<-ctx.Done()
				return ctx.Err()
			}
			return next(ctx)
		}), 0)
		for i := range 40 {
			leads(t, standing(t, b, "a", func(c *elector.Config) { c.Election = fmt.Sprintf("/stuck%d", i) }))
		}
		synctest.Wait()
		term := leads(t, standing(t, b, "a", func(c *elector.Config) { c.Election = "/other" }))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		require.NoError(t, term.Proclaim(ctx, []byte("here I am")))
	})
}
