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

// A dynamic directory of names, in three roles. A resolver is what a DNS server would ask.
//
//	registrar  keeps an address of a name as an ephemeral entry in DIR, which goes with its session
//	resolver   has all of DIR in a cache, which a watch of the listing keeps up to date. A
//	           question costs the service nothing, not even one for a name that there is not
//	scanner    tries each address, and takes out those that are dead though their session lives
//
// Source: Curator's ServiceDiscovery with its ServiceCache; the catalogue and the checks of Consul. That the
// scanner is a role of its own: Ni, "From Paxos to ZooKeeper", chapter 6 (dynamic DNS).
//
// Trap: an entry lives as long as its session, and not as long as what listens at the address: hence
// the scanner. A scanner that is cut off itself finds all dead, and would take out all: hence the bound
// of half. And a watch of the listing tells of entries that come and go, not of values that change: an
// address that changes is another entry.

// An Address is the value of an entry.
type Address struct {
	Name string // "www"
	Addr netip.AddrPort
}

// Register keeps an address in dir until ctx ends or the session is lost. Where it is taken out, by a
// scanner or whomever, it comes back as soon as it is alive.
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

// readAddress reads an entry. That has no Name if it has gone since, or is a stranger's.
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

// Lookup returns the addresses of a name in lower case; known is false while nothing has been read yet. They are those
// of the last time the service was in touch.
func (r *Resolver) Lookup(name string) (addrs []netip.AddrPort, known bool) {
	cache := r.cache.Load()
	if cache == nil {
		return nil, false
	}
	return (*cache)[name], true
}

// Watch keeps the cache up to date until ctx ends or the session is lost. The cache stays: call
// it again, with a new session.
func (r *Resolver) Watch(ctx context.Context, s *backend.Session, dir string) error {
	err := s.CatchUp(ctx, dir) // a new session may begin behind what the one before has shown
	var line backend.Listing
	if err == nil {
		line, err = s.List(ctx, dir)
	}
	for entries := make(map[string]Address); err == nil; line, err = s.AwaitList(ctx, line) {
		names, now := make(map[string][]netip.AddrPort), make(map[string]Address, len(line.Keys))
		for _, key := range line.Keys { // those that are known are not read again
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
