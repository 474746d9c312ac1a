package zookeeper

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// addresses are those of the servers' names. A name may have several: of one server, or of an ensemble's
// servers, as the name of a headless service has. net.Dialer would try them in an order that is always the
// same, and give each two seconds at least. So a server that accepts connections and is frozen would hide
// all others, and one that drops packets, too, where the session timeout is short.
type addresses struct {
	mu    sync.Mutex
	order map[string][]string // by name; the one that was used last is the last
}

// dialer sends no probes on connections that are idle: heartbeats find out sooner.
var dialer = net.Dialer{KeepAlive: -1}

// dial connects to a server, given as "host:port", at the address that was not used for the longest time. When
// that has not accepted within its share of the time, it tries the next one, too: on a slow link a share may be
// too short for any of them.
func (a *addresses) dial(ctx context.Context, all *book, network, server string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	end, _ := ctx.Deadline()
	host, port, err := net.SplitHostPort(server)
	if err != nil {
		return nil, err
	}
	ips, err := a.lookUp(ctx, all, host, timeout)
	if len(ips) == 1 { // without the goroutines and timers that several take
		conn, refused := dialer.DialContext(ctx, network, net.JoinHostPort(ips[0], port))
		if refused != nil {
			return nil, errors.Join(err, refused)
		}
		if ips[0] != host {
			a.note(host, ips)
		}
		return conn, nil
	}
	type answer struct {
		i    int
		conn net.Conn
		err  error
	}
	answers := make(chan answer, len(ips))
	errs := []error{err}
	for tried, pending := 0, 0; tried < len(ips) || pending > 0; {
		var next <-chan time.Time
		if i := tried; i < len(ips) {
			next = time.After(time.Until(end) / time.Duration(len(ips)-i))
			tried, pending = tried+1, pending+1
			go func() {
				conn, err := dialer.DialContext(ctx, network, net.JoinHostPort(ips[i], port))
				answers <- answer{i, conn, err}
			}()
		}
		select {
		case r := <-answers:
			pending--
			if r.err != nil {
				errs = append(errs, r.err)
				break
			}
			go func() {
				for range pending {
					if late := <-answers; late.err == nil {
						_ = late.conn.Close() // nothing was sent on it
					}
				}
			}()
			a.note(host, slices.Concat(ips[r.i+1:], ips[:r.i+1]))
			return r.conn, nil
		case <-next:
		}
	}
	return nil, errors.Join(errs...)
}

// lookUp returns the addresses of a name. Known ones are used while names cannot be resolved, but not if
// there is no such name.
func (a *addresses) lookUp(ctx context.Context, all *book, host string, timeout time.Duration) ([]string, error) {
	if _, err := netip.ParseAddr(host); err == nil {
		return []string{host}, nil
	}
	known := all.of(host)
	if len(known) > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout/2)
		defer cancel()
	}
	ips, err := all.lookUp(ctx, host)
	var lookup *net.DNSError
	switch {
	case errors.As(err, &lookup) && lookup.IsNotFound:
		return nil, err
	case err != nil:
		ips = known
	}
	a.mu.Lock()
	order := a.order[host]
	a.mu.Unlock()
	byUse := func(x, y string) int { return slices.Index(order, x) - slices.Index(order, y) } // new ones first
	return slices.SortedStableFunc(slices.Values(ips), byUse), err
}

func (a *addresses) note(host string, order []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	note(&a.order, host, order)
}

// A book has the addresses of the servers' names, as they were last found. All sessions of a Backend share it. It
// has those of servers that no session has tried, too: when one must, DNS may be away.
type book struct {
	mu      sync.Mutex
	found   map[string][]string // by name
	updated time.Time
}

// due reports whether update is to be called: not within a minute of the last time.
func (b *book) due() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	due := time.Since(b.updated) > time.Minute
	if due {
		b.updated = time.Now()
	}
	return due
}

// update looks up all servers' names.
func (b *book) update(ctx context.Context, servers []string) {
	for _, server := range servers {
		host, _, _ := net.SplitHostPort(server) // Validate has done that
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		_, _ = b.lookUp(ctx, host) // a link will find out
		cancel()
	}
}

// lookUp resolves a name, and returns its addresses in random order.
func (b *book) lookUp(ctx context.Context, host string) (ips []string, err error) {
	found, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	if err != nil {
		return nil, err
	}
	for _, i := range rand.Perm(len(found)) {
		ips = append(ips, found[i].String())
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	note(&b.found, host, ips)
	return ips, nil
}

// of returns the addresses of a name, or nil if it was never resolved.
func (b *book) of(host string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.found[host]
}
