package parentwatch_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/strategy/parentwatch"
)

// An operator deletes all entries after a candidate lists them, before it reads its predecessor's.
func TestListingIsOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var service *memory.Service
		service = memory.New(memory.Options{Intercept: func(s memory.Step) {
			if s.Client != "b" || s.Kind != memory.StepGet {
				return
			}
			if keys := service.Listing(backend.Parent(s.Key)).Keys; len(keys) == 2 {
				service.Delete(keys[0])
				service.Delete(keys[1])
			}
		}})
		var terms []*elector.Term
		for _, id := range []string{"a", "b"} {
			e := must.Get(elector.New(elector.Config{Backend: service.Client(id), Strategy: parentwatch.Strategy{}, Election: "/e", ID: id}))(t)
			defer func() { require.NoError(t, e.Close(context.WithoutCancel(t.Context()))) }()
			terms = append(terms, must.Get(e.Campaign(t.Context()))(t))
		}
		synctest.Wait()
		assert.False(t, terms[0].Valid())
		assert.True(t, terms[1].Valid(), "its first entry has gone, too: it leads by another one")
	})
}
