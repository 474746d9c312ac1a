package main

import (
	"context"
	"fmt"
	"math"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/must"
)

var www = netip.MustParseAddrPort("10.0.0.1:80")

func alive(context.Context, netip.AddrPort) bool { return true }

// TestNames registers addresses, finds them dead, removes them, and registers them again.
func TestNames(t *testing.T) {
	onMemory(t, func(t *testing.T, svc *memory.Service, s *backend.Session) {
		var dead sync.Map
		alive := func(_ context.Context, a netip.AddrPort) bool {
			_, is := dead.Load(a)
			return !is
		}
		var r Resolver
		_, known := r.Lookup("www")
		assert.False(t, known)
		resolver := svc.Client("resolver")
		watch := func() {
			s := open(t, resolver)
			during(t, func(ctx context.Context) error { return r.Watch(ctx, s, "/names") })
		}
		after := func(d time.Duration, name string, want ...netip.AddrPort) {
			t.Helper()
			time.Sleep(d)
			got, known := r.Lookup(name)
			assert.True(t, known)
			assert.ElementsMatch(t, want, got, name)
		}
		watch()
		require.NoError(t, svc.Put("/names/notes", []byte("nonsense")))
		for _, value := range []string{"", "nonsense", `{"Name":"www"}`, `{"Addr":"10.0.0.9:80"}`, `{"Name":"www","Addr":"x"}`} {
			must.Get(s.Commit(t.Context(), nil, backend.Enqueue("/names", []byte(value))))(t)
		}
		var addrs []netip.AddrPort
		var sessions []*backend.Session
		var stop func() error
		for i, name := range []string{"www", "WWW", "db", "db"} {
			s, a := open(t, svc), netip.AddrPortFrom(www.Addr(), www.Port()+uint16(i))
			addrs, sessions = append(addrs, a), append(sessions, s)
			stop = during(t, func(ctx context.Context) error { return Register(ctx, s, "/names", Address{name, a}, alive) })
			synctest.Wait()
		}
		after(time.Second, "www", addrs[0], addrs[1])
		after(0, "db", addrs[2], addrs[3])
		after(0, "none")

		said, scans := make(chan string, 1000), open(t, svc)
		scans = before(scans, commits(backend.OpDelete), func() { svc.Delete(svc.Listing("/names").Keys[5]) }) // another is faster
		var tries atomic.Int64                                                                                 // so many, until the scanner is cut off
		tries.Store(math.MaxInt64)
		during(t, func(ctx context.Context) error {
			return Scan(ctx, scans, "/names", time.Second, func(ctx context.Context, a netip.AddrPort) bool {
				return tries.Add(-1) >= 0 && alive(ctx, a)
			}, func(format string, args ...any) { said <- fmt.Sprintf(format, args...) })
		})
		dead.Store(addrs[0], true) // its session lives on
		after(5*time.Second, "www", addrs[1])
		assert.Empty(t, said, "it has not removed it itself")
		dead.Clear()
		after(5*time.Second, "www", addrs[0], addrs[1])
		dead.Store(addrs[0], true)
		after(5*time.Second, "www", addrs[1])
		assert.Equal(t, "takes out www at 10.0.0.1:80", <-said)
		dead.Clear()
		time.Sleep(5500 * time.Millisecond)

		unchanged := svc.Dump()
		dead.Store(addrs[0], true)
		time.Sleep(2 * time.Second)
		dead.Clear()
		time.Sleep(5 * time.Second)
		assert.Equal(t, unchanged, svc.Dump(), "twice is not enough")
		for _, a := range addrs[:3] {
			dead.Store(a, true)
		}
		time.Sleep(time.Minute)
		assert.Equal(t, unchanged, svc.Dump(), "three of four may be the scanner's own trouble")
		assert.Equal(t, "finds 3 of 4 dead, and leaves them: it may be cut off itself", <-said)
		dead.Clear()
		time.Sleep(5 * time.Second)
		tries.Store(6) // it is cut off in the middle of its second round from now
		time.Sleep(time.Minute)
		tries.Store(math.MaxInt64)
		assert.Equal(t, unchanged, svc.Dump(), "all are dead by then")

		resolver.Suspend()
		assert.ErrorIs(t, stop(), context.Canceled)
		after(time.Minute, "db", addrs[2], addrs[3]) // as it was
		resolver.Resume()
		watch()
		after(time.Second, "db", addrs[2])
		svc.Delete(svc.Listing("/names").Keys[5])
		after(5*time.Second, "www", addrs[0], addrs[1])
		for _, s := range sessions[1:] {
			require.NoError(t, s.Close(t.Context()))
		}
		dead.Store(addrs[0], true)
		after(time.Minute, "www", addrs[0]) // a single one stays
		after(0, "db")
	})
}
