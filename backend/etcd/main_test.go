package etcd_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/elector-go/elector/internal/attempt"
	"github.com/elector-go/elector/internal/etcdtest"
)

func TestMain(m *testing.M) {
	stop := attempt.Announce(controlTTL, control)
	code := m.Run()
	stop()
	os.Exit(shared.Close(code))
}

// controlTTL is that of the shortest sessions that have to live here.
const controlTTL = 3 * time.Second

// control observes the server of all tests that do it no harm.
func control(ctx context.Context, answered func(sent time.Time)) error {
	server, err := shared.Await(ctx)
	if err != nil {
		return err
	}
	return etcdtest.Control(server.Addr(), controlTTL)(ctx, answered)
}
