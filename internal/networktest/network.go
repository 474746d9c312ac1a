// Package networktest makes networks for tests on Linux, on which servers can be cut off from each other
// while clients reach all of them.
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
	// ErrNoNetwork is wrapped by every error that means that this process may not have network namespaces,
	// or that this kernel cannot break a network.
	ErrNoNetwork = errors.New("no networks of our own here")

	// ErrNotInstalled is wrapped by errors that name a program that is missing from this machine.
	ErrNotInstalled = errors.New("not installed")

	// ErrClosed is wrapped by the errors of calls after Close.
	ErrClosed = errors.New("closed")
)

// Network is a network for one cluster, whose members can be cut off from each other while clients reach
// all of them. Each host is a Linux network namespace. Every two hosts are connected by a separate link,
// and so are each host and the tests. The configuration of a cluster puts it on a network; its members take
// the hosts in order.
//
// A TCP connection that outlives a Drop loses nothing: the sender sends the dropped packets again, so they
// arrive late, after Heal. Packets cannot be delayed otherwise.
//
// The methods may be called from any goroutine. Hosts are numbered from 0, see servertest.ZooKeeper.Host.
type Network struct {
	block *block
	hosts []Site

	mu      sync.Mutex
	given   int             // hosts that servers have
	dropped map[[2]int]bool // pairs of from and to
	closed  bool
}

// A Site is where a server runs.
type Site struct {
	IP    string // the only address it listens on
	Netns string // network namespace, "" for the tests' own
	Host  int    // its number in its Network
}

// Local is the site of all servers without a Network.
var Local = Site{IP: "127.0.0.1"}

// Addr returns the address of a port of the site.
func (s Site) Addr(port int) string { return net.JoinHostPort(s.IP, strconv.Itoa(port)) }

// Take returns the next n sites that no server has. If w is nil, all sites are Local.
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
// It needs root's rights on Linux. Without them it returns an error that wraps ErrNoNetwork; if only a
// program is missing, the error wraps ErrNotInstalled.
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
		_ = b.close() // the next owner of the block removes what is left
		return nil, err
	}
	return w, nil
}

// Drop silently drops all that one host sends to another from now on. The other direction still works. Drop
// may be called twice.
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

// Cut is Drop in both directions. Connections stay open on both sides, but silent.
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

// Rejoin is Mend between one host and all others. It undoes CutOff.
func (w *Network) Rejoin(host int) error {
	for other := range w.hosts {
		if err := w.Mend(host, other); err != nil {
			return err
		}
	}
	return nil
}

// Reset ends the TCP connections of a host with another. The host's programs notice at once. The other host
// is sent a reset, which a Drop loses for good.
func (w *Network) Reset(host, with int) error {
	return w.exclusive(func() error {
		// ss reports "Invalid argument" for sockets that are already gone, and for sockets that are not
		// connections.
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

// restore ends a Drop. The caller holds mu.
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

// Names returns the names of the namespaces and links of this network. After Close there are none.
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

// Close ends the processes that still run on the network and removes it. It may be called twice.
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

// exclusive runs a change of the network, one at a time.
func (w *Network) exclusive(change func() error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return fmt.Errorf("networktest: network %w", ErrClosed)
	}
	return change()
}
