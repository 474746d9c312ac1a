package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
)

// hosts are what listens where.
type hosts struct {
	sync.Mutex
	dead map[netip.AddrPort]bool
}

func (h *hosts) alive(_ context.Context, a netip.AddrPort) bool {
	h.Lock()
	defer h.Unlock()
	return !h.dead[a]
}

func (h *hosts) set(dead bool, addrs ...netip.AddrPort) {
	h.Lock()
	defer h.Unlock()
	if h.dead == nil {
		h.dead = make(map[netip.AddrPort]bool)
	}
	for _, a := range addrs {
		h.dead[a] = dead
	}
}

func at(addr string) netip.AddrPort { return netip.MustParseAddrPort(addr) }

// during runs f until the test ends.
func during(t *testing.T, f func(ctx context.Context) error) (stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() { _ = stop() })
	return stop
}

func register(t *testing.T, s *backend.Session, dir, name, addr string, h *hosts) (stop func() error) {
	return during(t, func(ctx context.Context) error { return Register(ctx, s, dir, Address{name, at(addr)}, h.alive) })
}

// resolves holds that a name has these addresses soon.
func resolves(t *testing.T, r *Resolver, name string, want ...string) {
	t.Helper()
	var got []string
	if !assert.Eventually(t, func() bool {
		addrs, known := r.Lookup(name)
		got = nil
		for _, a := range addrs {
			got = append(got, a.String())
		}
		slices.Sort(got)
		return known && slices.Equal(got, want)
	}, wait.Patience, 10*time.Millisecond) {
		t.Fatalf("%s is %q, not %q", name, got, want)
	}
}

func TestNames(t *testing.T) {
	onAll(t, func(t *testing.T, b backend.Backend) {
		var h hosts
		var r Resolver
		dir := keyOf(t)
		_, known := r.Lookup("www")
		assert.False(t, known)
		watching, scanning := open(t, b), open(t, b)
		during(t, func(ctx context.Context) error { return r.Watch(ctx, watching, dir) })
		resolves(t, &r, "www")
		one, two, three := open(t, b), open(t, b), open(t, b)
		register(t, one, dir, "www", "10.0.0.1:80", &h)
		stop := register(t, two, dir, "WWW", "10.0.0.2:80", &h)
		register(t, three, dir, "db", "[fd00::1]:5432", &h)
		resolves(t, &r, "www", "10.0.0.1:80", "10.0.0.2:80")
		resolves(t, &r, "db", "[fd00::1]:5432")
		resolves(t, &r, "none")

		during(t, func(ctx context.Context) error { return Scan(ctx, scanning, dir, 20*time.Millisecond, h.alive, t.Logf) })
		h.set(true, at("10.0.0.1:80")) // its session lives on
		resolves(t, &r, "www", "10.0.0.2:80")
		h.set(false, at("10.0.0.1:80"))
		resolves(t, &r, "www", "10.0.0.1:80", "10.0.0.2:80")

		assert.ErrorIs(t, stop(), context.Canceled)
		resolves(t, &r, "www", "10.0.0.1:80")
		require.NoError(t, one.Close(t.Context()))
		resolves(t, &r, "www")
		resolves(t, &r, "db", "[fd00::1]:5432")
	})
}

// TestScannerThatIsCutOff finds all dead, and leaves them.
func TestScannerThatIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		var h hosts
		addrs := []string{"10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80", "10.0.0.4:80"}
		s := open(t, service)
		for _, addr := range addrs {
			register(t, s, "/names", "www", addr, &hosts{})
		}
		require.NoError(t, service.Put("/names/notes", []byte("nonsense")))
		stranger := open(t, service)
		for _, value := range []string{"", "nonsense", `{"Name":"www"}`, `{"Addr":"10.0.0.9:80"}`, `{"Name":"www","Addr":"x"}`} {
			_, err := enqueue(t.Context(), stranger, "/names", []byte(value))
			require.NoError(t, err)
		}
		synctest.Wait()
		before := service.Dump()
		scanning := open(t, service)
		during(t, func(ctx context.Context) error {
			return Scan(ctx, scanning, "/names", time.Second, h.alive, func(string, ...any) {})
		})
		var r Resolver
		during(t, func(ctx context.Context) error { return r.Watch(ctx, scanning, "/names") })
		h.set(true, at(addrs[0]), at(addrs[1]), at(addrs[2]))
		time.Sleep(time.Minute + 500*time.Millisecond) // between two rounds, lest one sees half of a change
		assert.Equal(t, before, service.Dump(), "three of four may be the scanner's own trouble")
		resolves(t, &r, "www", addrs...)
		h.set(false, at(addrs[0]), at(addrs[1]), at(addrs[2]))
		time.Sleep(10 * time.Second)
		h.set(true, at(addrs[1])) // for two times
		time.Sleep(2 * time.Second)
		h.set(false, at(addrs[1]))
		time.Sleep(time.Minute)
		assert.Equal(t, before, service.Dump(), "twice is not enough")
		h.set(true, at(addrs[1]))
		time.Sleep(3 * time.Second)
		resolves(t, &r, "www", append([]string{addrs[0]}, addrs[2:]...)...)
	})
}

// TestScannerSaysWhatItTakesOut: the address, and only where it has removed the entry itself. One that is alone stays.
func TestScannerSaysWhatItTakesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		var h hosts
		for _, addr := range []string{"10.0.0.1:80", "10.0.0.2:80"} {
			register(t, open(t, service), "/names", "www", addr, &h)
			synctest.Wait()
		}
		scanning := intercept(open(t, service), backend.OpDelete, sync.OnceFunc(func() { // another scanner is faster
			service.Delete(service.Listing("/names").Keys[0])
		}))
		said := make(chan string, 100)
		during(t, func(ctx context.Context) error {
			return Scan(ctx, scanning, "/names", time.Second, h.alive, func(format string, args ...any) { said <- fmt.Sprintf(format, args...) })
		})
		h.set(true, at("10.0.0.1:80"))
		time.Sleep(5 * time.Second)
		assert.Len(t, service.Listing("/names").Keys, 1)
		assert.Empty(t, said)
		h.set(false, at("10.0.0.1:80"))
		time.Sleep(5 * time.Second) // it comes back
		h.set(true, at("10.0.0.1:80"))
		time.Sleep(5 * time.Second)
		require.Len(t, said, 1)
		assert.Equal(t, "takes out www at 10.0.0.1:80", <-said)
		h.set(true, at("10.0.0.2:80"))
		time.Sleep(5 * time.Second)
		assert.Len(t, service.Listing("/names").Keys, 1)
		assert.Contains(t, <-said, "finds 1 of 1 dead")
	})
}

// TestResolverOutOfTouch goes on with what it knows, and catches up in a new session.
func TestResolverOutOfTouch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		client := service.Client("resolver")
		var r Resolver
		during(t, func(ctx context.Context) error {
			for ctx.Err() == nil {
				s, err := client.Open(ctx, backend.OpenOptions{})
				if err != nil {
					_ = sleep(ctx, time.Second)
					continue
				}
				_ = r.Watch(ctx, s, "/names")
				_ = s.Close(context.WithoutCancel(ctx))
			}
			return nil
		})
		one, two := open(t, service), open(t, service)
		register(t, one, "/names", "www", "10.0.0.1:80", &hosts{})
		resolves(t, &r, "www", "10.0.0.1:80")
		client.Suspend()
		require.NoError(t, one.Close(t.Context()))
		register(t, two, "/names", "www", "10.0.0.2:80", &hosts{})
		time.Sleep(time.Minute)
		resolves(t, &r, "www", "10.0.0.1:80")
		client.Resume()
		time.Sleep(time.Minute)
		resolves(t, &r, "www", "10.0.0.2:80")
	})
}

// TestRegistrarsCrash has sessions expire, links cut, and entries deleted.
func TestRegistrarsCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		client := service.Client("registrar")
		var r Resolver
		watching := open(t, service)
		during(t, func(ctx context.Context) error { return r.Watch(ctx, watching, "/names") })
		s := open(t, client)
		stop := register(t, s, "/names", "www", "10.0.0.1:80", &hosts{})
		synctest.Wait()
		service.Delete(service.Listing("/names").Keys[0])
		time.Sleep(5 * time.Second)
		resolves(t, &r, "www", "10.0.0.1:80")
		client.LoseReply(memory.Kind(backend.OpEnqueue))
		service.Delete(service.Listing("/names").Keys[0])
		time.Sleep(5 * time.Second)
		resolves(t, &r, "www", "10.0.0.1:80")
		client.Suspend()
		time.Sleep(time.Minute)
		assert.ErrorIs(t, stop(), backend.ErrSessionLost)
		resolves(t, &r, "www")
		assert.Empty(t, service.Listing("/names").Keys)
	})
}

// zone is served on a loopback port until the test ends.
func zone(t *testing.T, z Zone) (addr string) {
	var udp net.PacketConn
	var tcp net.Listener
	require.Eventually(t, func() (free bool) { // for both
		var err error
		if tcp, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return false
		}
		if udp, err = net.ListenPacket("udp", tcp.Addr().String()); err != nil {
			_ = tcp.Close()
		}
		return err == nil
	}, wait.Patience, time.Millisecond)
	stop := during(t, func(ctx context.Context) error { return z.Serve(ctx, udp, tcp) })
	t.Cleanup(func() { assert.ErrorIs(t, stop(), context.Canceled) })
	return tcp.Addr().String()
}

func TestZone(t *testing.T) {
	names := map[string][]netip.AddrPort{
		"www": {at("10.0.0.1:80"), at("10.0.0.1:81"), at("10.0.0.2:80"), at("[fd00::1]:80")},
		"db":  {at("10.0.0.3:0")},
	}
	for i := range 100 {
		names["many"] = append(names["many"], netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 1, byte(i)}), 80))
	}
	addr := zone(t, Zone{Name: "example.", Lookup: func(name string) ([]netip.AddrPort, bool) { return names[name], name != "unknown" }})
	ask := func(name string, kind uint16, transport string, size uint16) *dns.Msg {
		t.Helper()
		m := new(dns.Msg).SetQuestion(name, kind)
		if size > 0 {
			m.SetEdns0(size, false)
		}
		a, _, err := (&dns.Client{Net: transport, UDPSize: size}).Exchange(m, addr)
		require.NoError(t, err)
		return a
	}
	data := func(rrs []dns.RR) (all []string) {
		for _, rr := range rrs {
			all = append(all, strings.TrimPrefix(rr.String(), rr.Header().String()))
		}
		return all
	}
	a := ask("WWW.Example.", dns.TypeA, "udp", 0)
	assert.True(t, a.Authoritative)
	assert.Equal(t, []string{"10.0.0.1", "10.0.0.2"}, data(a.Answer))
	assert.Equal(t, "WWW.Example.", a.Answer[0].Header().Name, "as it was asked")
	assert.EqualValues(t, ttl, a.Answer[0].Header().Ttl)
	assert.Equal(t, []string{"fd00::1"}, data(ask("www.example.", dns.TypeAAAA, "tcp", 0).Answer))
	a = ask("www.example.", dns.TypeSRV, "udp", 1232)
	assert.Contains(t, data(a.Answer), "0 0 81 0a000001.addr.example.")
	assert.Len(t, a.Answer, 4)
	additional := slices.DeleteFunc(data(a.Extra), func(rr string) bool { return !strings.Contains("10.0.0.1 10.0.0.2 fd00::1", rr) })
	assert.Len(t, additional, 3, "each address once: %v", a.Extra)
	assert.Equal(t, []string{"10.0.0.1"}, data(ask("0a000001.addr.example.", dns.TypeA, "udp", 0).Answer))
	assert.Empty(t, ask("db.example.", dns.TypeSRV, "udp", 0).Answer, "it has no port")

	for name, rcode := range map[string]int{
		"none.example.": dns.RcodeNameError, "0g.addr.example.": dns.RcodeNameError, "0a.addr.example.": dns.RcodeNameError,
		"unknown.example.": dns.RcodeServerFailure, "www.other.": dns.RcodeRefused, "wwwexample.": dns.RcodeRefused,
		"example.": dns.RcodeSuccess, "db.example.": dns.RcodeSuccess,
		"addr.example.": dns.RcodeSuccess, // there are names below it: a resolver that finds out name by name asks
	} {
		a := ask(name, dns.TypeAAAA, "udp", 0)
		assert.Equal(t, dns.RcodeToString[rcode], dns.RcodeToString[a.Rcode], name)
		assert.Empty(t, a.Answer, name)
		if rcode == dns.RcodeNameError || rcode == dns.RcodeSuccess {
			require.Len(t, a.Ns, 1, name)
			assert.EqualValues(t, ttl, a.Ns[0].(*dns.SOA).Minttl)
		}
	}

	a = ask("many.example.", dns.TypeA, "udp", 0)
	assert.True(t, a.Truncated)
	assert.NotEmpty(t, a.Answer)
	assert.Len(t, ask("many.example.", dns.TypeA, "tcp", 0).Answer, 100)
	assert.False(t, ask("many.example.", dns.TypeA, "udp", 4096).Truncated)
	assert.NotNil(t, ask("www.example.", dns.TypeA, "udp", 1232).IsEdns0())
}

// TestResolverBehind: a new session may begin on a server that is behind, and what the cache has is not to go back.
func TestResolverBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc, r := memory.New(memory.Options{}), new(Resolver)
		s := open(t, svc)
		defer svc.Lag()() // at a moment at which there was none
		register(t, s, "/names", "www", "10.0.0.1:80", &hosts{})
		synctest.Wait()
		behind := open(t, svc)
		during(t, func(ctx context.Context) error { return r.Watch(ctx, behind, "/names") })
		synctest.Wait()
		addrs, _ := r.Lookup("www")
		assert.Equal(t, []netip.AddrPort{at("10.0.0.1:80")}, addrs)
	})
}

// TestZoneByDig asks with BIND's client.
func TestZoneByDig(t *testing.T) {
	servertest.Long(t, "dig")
	dig, err := exec.LookPath("dig")
	require.NoError(t, err, "make setup-all installs it")
	addr := at(zone(t, Zone{Name: "example.", Lookup: func(name string) ([]netip.AddrPort, bool) {
		return []netip.AddrPort{at("10.0.0.1:80"), at("10.0.0.2:81")}, true
	}}))
	out, err := exec.Command(dig, "@127.0.0.1", "-p", strings.Split(addr.String(), ":")[1], "+short", "www.example", "A", "www.example", "SRV").Output()
	require.NoError(t, err)
	assert.Equal(t, "10.0.0.1\n10.0.0.2\n0 0 80 0a000001.addr.example.\n0 0 81 0a000002.addr.example.\n", string(out))
}
