package consul_test

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/internal/consultest"
	"github.com/elector-go/elector/internal/restoretest"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/strategy/catalog"
	"github.com/elector-go/elector/strategy/fair"
	"github.com/elector-go/elector/strategy/unfair"
)

// TestRestoredBehindItself has entries back that their candidates have deleted.
func TestRestoredBehindItself(t *testing.T) {
	t.Parallel()
	for _, item := range catalog.All() {
		t.Run(item.Strategy.Name(), func(t *testing.T) {
			if n := item.Strategy.Name(); n != fair.New().Name() && n != unfair.New().Name() {
				servertest.Long(t, "a server for each strategy")
			}
			t.Parallel()
			server := consultest.Single(t).Members[0]
			user, err := consultest.Operator(server)
			require.NoError(t, err)
			var saved []byte
			restoretest.BehindItself(t, restoretest.Service{
				Client: func(t *testing.T) backend.Backend {
					return processOn(t, consultest.Options{Config: consul.Config{SessionTimeout: 30 * time.Second}}, server).Backend
				},
				BackUp: func(t *testing.T) {
					backup, _, err := user.Snapshot().Save(nil)
					require.NoError(t, err)
					defer backup.Close()
					saved, err = io.ReadAll(backup)
					require.NoError(t, err)
				},
				Restore: func(t *testing.T) { require.NoError(t, user.Snapshot().Restore(nil, bytes.NewReader(saved))) },
			}, item.Strategy)
		})
	}
}
