package etcd_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/strangertest"
	"github.com/elector-go/elector/internal/wait"
)

// No stranger behind this library's keys is ever elected, as each believes that the oldest key is its
// leader's, and the election's directory stays: it waits there.
func TestStrangers(t *testing.T) {
	f := setUp(t, 30*time.Second)
	operator := f.operator()
	stands := func(t *testing.T, election string, number int) {
		t.Helper()
		strangertest.Stands(f.Ctx, t, f.S, election, number)
	}
	// by makes strangers that wait in this way.
	by := func(waits func(ctx context.Context, s *concurrency.Session, election string) error) func(t *testing.T, election string) func() {
		return func(t *testing.T, election string) func() {
			_, err := f.S.Get(f.Ctx, election)
			founded := err == nil
			s := must.Get(concurrency.NewSession(operator, concurrency.WithTTL(60)))(t)
			ctx, cancel := context.WithCancel(f.Ctx)
			waiting := wait.Later(func() (struct{}, error) { return struct{}{}, waits(ctx, s, election) })
			stands(t, election, 1)
			return func() {
				if founded {
					cancel()
				}
				_, err := wait.Returned(f.T, waiting)
				assert.Equal(t, founded, errors.Is(err, context.Canceled), "%v", err)
				cancel()
				require.NoError(t, s.Close())
			}
		}
	}
	for name, stranger := range map[string]func(t *testing.T, election string) (end func()){
		"concurrency's Election": by(func(ctx context.Context, s *concurrency.Session, election string) error {
			return concurrency.NewElection(s, election).Campaign(ctx, "stranger")
		}),
		"concurrency's Mutex": by(func(ctx context.Context, s *concurrency.Session, election string) error {
			return concurrency.NewMutex(s, election).Lock(ctx)
		}),
		"etcdctl elect": func(t *testing.T, election string) func() {
			etcdctl := exec.Command(strangertest.Etcdctl(t), "--endpoints", f.Servers[0], "elect", election, "stranger")
			etcdctl.Env = append(os.Environ(), "ETCDCTL_API=3")
			stop := strangertest.Start(t, etcdctl, os.Interrupt)
			stands(t, election, 1)
			return func() {
				stop()
				stands(t, election, 0)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			election := newRoot()
			strangertest.Beside(t, f.Backend, election, func() func() { return stranger(t, election) })
		})
	}
}
