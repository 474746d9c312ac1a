package zookeeper_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/elector-go/elector/internal/attempt"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/zktest"
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	defer attempt.Announce(controlTTL, control)()
	return servertest.Main(m)
}

// controlTTL is that of zktest.NewProcess.
const controlTTL = 4 * time.Second

// control observes the server of all tests that neither stop nor fill it.
func control(ctx context.Context, answered func(sent time.Time)) error {
	server, err := servertest.AwaitSharedZooKeeper(ctx)
	if err != nil {
		return err
	}
	return zktest.Control(server.Addr(), controlTTL)(ctx, answered)
}
