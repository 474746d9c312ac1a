package main

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector/backend"
)

// A dynamic directory of names, in three roles. A DNS server would ask a resolver.
//
//	registrar  keeps an address of a name as an ephemeral entry in DIR, which goes with its session
//	resolver   has all of DIR in a cache, which a watch of the listing keeps up to date. A
//	           question costs the service nothing, not even one for an unknown name
//	scanner    tries each address, and removes those that are dead though their session lives
//
// Source: Curator's ServiceDiscovery with its ServiceCache; the catalogue and the checks of Consul. The
// separate role of the scanner: Ni, "From Paxos to ZooKeeper", chapter 6 (dynamic DNS).
//
// Trap: an entry lives as long as its session, and not as long as the process that listens at the address:
// hence the scanner. A scanner that is cut off itself finds all dead, and would remove all: hence the bound
// of half. And a watch of the listing reports entries that come and go, not values that change: a changed
// address needs another entry.

// An Address is the value of an entry.
type Address struct {
	Name string // "www"
	Addr netip.AddrPort
}

// Register keeps an address in dir until ctx ends or the session is lost. If somebody, such as a scanner,
// removes it, it comes back as soon as it is alive.
func Register(ctx context.Context, s *backend.Session, dir string, a Address, alive func(context.Context, netip.AddrPort) bool) error {
	for {
		if alive(ctx, a.Addr) {
			me, err := one(add(ctx, s, nil, backend.Enqueue(dir, encode(a))))
			if err != nil {
				return err
			}
			h := hold(ctx, s, me)
			<-h.Done()
			if cause := context.Cause(h); !errors.Is(cause, errTaken) {
				return errors.Join(cause, h.Release(ctx))
			}
		}
		if err := sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}

// readAddress reads an entry. Name is empty if it has gone since, or is a stranger's.
func readAddress(ctx context.Context, s *backend.Session, key string) (backend.Entry, Address, error) {
	e, err := read(ctx, s, key)
	a, _ := decode[Address](e)
	if err != nil || e.Session == "" || !a.Addr.IsValid() {
		return e, Address{}, err
	}
	return e, a, nil
}

// A Resolver answers from its cache. The zero Resolver knows nothing.
type Resolver struct {
	cache atomic.Pointer[map[string][]netip.AddrPort]
}

// Lookup returns the addresses of a name in lower case; known is false until the first read. They are as of
// the last time that the link was up.
func (r *Resolver) Lookup(name string) (addrs []netip.AddrPort, known bool) {
	cache := r.cache.Load()
	if cache == nil {
		return nil, false
	}
	return (*cache)[name], true
}

// Watch keeps the cache up to date until ctx ends or the session is lost. The cache stays: call Watch again,
// with a new session.
func (r *Resolver) Watch(ctx context.Context, s *backend.Session, dir string) error {
	err := s.CatchUp(ctx, dir) // a new session may begin behind what the last one has shown
	var line backend.Listing
	if err == nil {
		line, err = s.List(ctx, dir)
	}
	for entries := make(map[string]Address); err == nil; line, err = s.AwaitList(ctx, line) {
		names, now := make(map[string][]netip.AddrPort), make(map[string]Address, len(line.Keys))
		for _, key := range line.Keys { // known entries are not read again
			a, ok := entries[key]
			if !ok {
				if _, a, err = readAddress(ctx, s, key); err != nil {
					return err
				}
			}
			if now[key] = a; a.Name != "" {
				name := strings.ToLower(a.Name) // names have no case, as in DNS
				names[name] = append(names[name], a.Addr)
			}
		}
		entries = now
		r.cache.Store(&names)
	}
	return err
}
