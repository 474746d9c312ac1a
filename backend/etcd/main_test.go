package etcd_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/elector-go/elector/internal/attempt"
	"github.com/elector-go/elector/internal/etcdtest"
)

func TestMain(m *testing.M) {
	stop := attempt.Announce(ttl, control)
	code := m.Run()
	stop()
	select {
	case <-used:
		if server, err := shared(); err == nil {
			if err := server.Close(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = max(code, 1)
			}
		}
	default:
	}
	os.Exit(code)
}

// control observes the server of all tests that do it no harm.
func control(ctx context.Context, answered func(sent time.Time)) error {
	select {
	case <-used:
	case <-ctx.Done():
		return ctx.Err()
	}
	server, err := shared()
	if err != nil {
		return err
	}
	return etcdtest.Control(server.Addr(), ttl)(ctx, answered)
}
