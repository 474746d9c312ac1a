// Package networktest makes networks of a test's own on Linux, on which servers are cut off
// from each other while clients reach all of them.
package networktest

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
)

var (
	// ErrNoNetwork is wrapped by every error that means that this process may not
	// have network namespaces, or that this kernel cannot break a network.
	ErrNoNetwork = errors.New("no networks of our own here")

	// ErrNotInstalled is wrapped by the errors that name a program that is missing from
	// this machine.
	ErrNotInstalled = errors.New("not installed")

	// ErrClosed is wrapped by the errors of what comes after Close.
	ErrClosed = errors.New("closed")
)

// Network is a network of a cluster's own, whose members can be cut off from each
// other while clients reach all of them. Each host is a Linux network namespace. Each
// two hosts have a link of their own, and each host has one to the tests. A cluster
// is put on it by its configuration; its members take the hosts in order.
//
// What a Drop holds back is not lost to a TCP connection that outlives it: the sender
// sends it again, so after Heal it arrives late. Packets cannot be delayed otherwise.
//
// The methods may be called from any goroutine. Hosts count from 0, see servertest.ZooKeeper.Host.
type Network struct {
	block *block
	hosts []Site

	mu      sync.Mutex
	given   int             // hosts that servers have
	dropped map[[2]int]bool // from one host to another
	closed  bool
}

// A Site is where a server runs.
type Site struct {
	IP    string // the only address it listens on
	Netns string // network namespace, "" for that of the tests
	Host  int    // its number in its Network
}

// Local is the site of all servers without a Network.
var Local = Site{IP: "127.0.0.1"}

// Addr is the address of one of its ports.
func (s Site) Addr(port int) string { return net.JoinHostPort(s.IP, strconv.Itoa(port)) }

// Take returns the next n sites that no server has. Without a network, w is nil and all are
// Local.
func (w *Network) Take(n int) ([]Site, error) {
	if w == nil {
		sites := make([]Site, n)
		for i := range sites {
			sites[i] = Local
		}
		return sites, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, fmt.Errorf("networktest: network %w", ErrClosed)
	}
	if w.given+n > len(w.hosts) {
		return nil, fmt.Errorf("networktest: %d hosts wanted, and %d of %d are taken", n, w.given, len(w.hosts))
	}
	w.given += n
	return w.hosts[w.given-n : w.given], nil
}

// New makes a network of n hosts. The caller closes it, after the servers on it.
//
// It needs root's rights on Linux, and returns an error that wraps ErrNoNetwork where
// it has not got them, and one that wraps ErrNotInstalled where only a program is missing.
func New(n int) (*Network, error) {
	if err := canHaveNetworks(); err != nil {
		return nil, err
	}
	b, err := takeBlock()
	if err != nil {
		return nil, err
	}
	w := &Network{block: b, dropped: make(map[[2]int]bool)}
	for i := range n {
		w.hosts = append(w.hosts, Site{IP: b.ip(i + 1), Netns: b.netns(i), Host: i})
	}
	if err := b.build(w.hosts); err != nil {
		_ = b.close() // what is left, the next owner of the block removes
		return nil, err
	}
	return w, nil
}

// Drop drops silently all that one host sends to another from now on. What the other
// sends still arrives. To drop twice is fine.
func (w *Network) Drop(from, to int) error {
	return w.exclusive(func() error {
		if w.dropped[[2]int{from, to}] {
			return nil
		}
		if err := tool("tc", "-n", w.hosts[from].Netns, "qdisc", "add", "dev", linkTo(to), "root", "blackhole"); err != nil {
			return err
		}
		w.dropped[[2]int{from, to}] = true
		return nil
	})
}

// Cut is Drop in both directions. Connections stay open on both sides, and silent.
func (w *Network) Cut(a, b int) error {
	if err := w.Drop(a, b); err != nil {
		return err
	}
	return w.Drop(b, a)
}

// CutOff cuts one host off from all others.
func (w *Network) CutOff(host int) error {
	for other := range w.hosts {
		if other == host {
			continue
		}
		if err := w.Cut(host, other); err != nil {
			return err
		}
	}
	return nil
}

// Rejoin is Mend of one host with all others. It ends what CutOff began.
func (w *Network) Rejoin(host int) error {
	for other := range w.hosts {
		if err := w.Mend(host, other); err != nil {
			return err
		}
	}
	return nil
}

// Reset ends the TCP connections that a host has with another. The host's programs
// notice at once. The other's are sent a reset, which a Drop holds back for good.
func (w *Network) Reset(host, with int) error {
	return w.exclusive(func() error {
		// It says "Invalid argument" of sockets that are gone by then, and of those
		// that are not connections.
		return tool("ss", "-N", w.hosts[host].Netns, "--no-header", "--tcp", "--kill", "state", "connected", "dst", w.hosts[with].IP)
	})
}

// Heal ends all Drops.
func (w *Network) Heal() error {
	return w.exclusive(func() error {
		for pair := range w.dropped {
			if err := w.restore(pair); err != nil {
				return err
			}
		}
		return nil
	})
}

// Mend ends the Drops between two hosts.
func (w *Network) Mend(a, b int) error {
	return w.exclusive(func() error {
		return errors.Join(w.restore([2]int{a, b}), w.restore([2]int{b, a}))
	})
}

// restore ends a Drop. Caller holds mu.
func (w *Network) restore(pair [2]int) error {
	if !w.dropped[pair] {
		return nil
	}
	if err := tool("tc", "-n", w.hosts[pair[0]].Netns, "qdisc", "del", "dev", linkTo(pair[1]), "root"); err != nil {
		return err
	}
	delete(w.dropped, pair)
	return nil
}

// Names returns the names of the namespaces and links that there are of this network, of
// which Close leaves none.
func (w *Network) Names() ([]string, error) {
	names, err := netnsNames()
	if err != nil {
		return nil, err
	}
	links, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("networktest: %w", err)
	}
	for _, l := range links {
		names = append(names, l.Name)
	}
	netns, link := fmt.Sprintf(netnsPrefix, w.block.number), fmt.Sprintf(linkPrefix, w.block.number)
	return slices.DeleteFunc(names, func(name string) bool {
		return !strings.HasPrefix(name, netns) && !strings.HasPrefix(name, link)
	}), nil
}

// Close ends what still runs on the network, and removes it. Closing twice is fine.
func (w *Network) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	if err := w.block.close(); err != nil {
		return err
	}
	w.closed = true
	return nil
}

// exclusive runs a change of the network while no other is going on.
func (w *Network) exclusive(change func() error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return fmt.Errorf("networktest: network %w", ErrClosed)
	}
	return change()
}
