package networktest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	blocks       = 255
	blockAddress = "10.99.%d.%d" // block and number; 254 is the address of the tests
	testsNumber  = 254

	// Names of the block's namespaces and links: %d is its number.
	netnsPrefix = "elector-%d-"
	linkPrefix  = "el%d-"

	out = "out" // a host's link to the tests
)

// block is 256 addresses and the names of the namespaces and links that go with them. It belongs to this
// process while the process holds the lock, a socket with an abstract name, which the kernel closes when
// the process ends. So everything in a block whose lock is free was left by a process that was killed.
type block struct {
	number int
	lock   net.Listener
}

func (b *block) ip(number int) string  { return fmt.Sprintf(blockAddress, b.number, number) }
func (b *block) netns(host int) string { return fmt.Sprintf(netnsPrefix+"%d", b.number, host) }
func (b *block) link(host int) string  { return fmt.Sprintf(linkPrefix+"%d", b.number, host) }

// linkTo returns the name of a host's link to another.
func linkTo(host int) string { return "to" + strconv.Itoa(host) }

// canHaveNetworks returns an error that says why this process cannot make networks, or nil.
func canHaveNetworks() error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("networktest: %w: network namespaces are Linux's, and this is %s", ErrNoNetwork, runtime.GOOS)
	}
	if uid := os.Geteuid(); uid != 0 {
		return fmt.Errorf("networktest: %w: to make network namespaces takes root, and this is user %d", ErrNoNetwork, uid)
	}
	for _, name := range []string{"ip", "tc", "ss"} {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("networktest: %w: %w; Debian's package is iproute2", ErrNotInstalled, err)
		}
	}
	return nil
}

// denied makes err wrap ErrNoNetwork if the kernel, or a container, does not let this process make or break
// networks.
func denied(err error) error {
	for _, text := range []string{"not permitted", "Permission denied", "Read-only file system", "not supported", "kind is unknown", "Unknown device type"} {
		if err != nil && strings.Contains(err.Error(), text) {
			return fmt.Errorf("%w: %w", ErrNoNetwork, err)
		}
	}
	return err
}

var sweepOnce = sync.OnceValue(sweep)

// sweep removes what killed processes have left.
func sweep() error {
	names, err := netnsNames()
	if err != nil {
		return err
	}
	var errs []error
	swept := make(map[int]bool)
	for _, name := range names {
		var number, host int
		if _, err := fmt.Sscanf(name, netnsPrefix+"%d", &number, &host); err != nil || swept[number] {
			continue
		}
		if b := lockBlock(number); b != nil {
			swept[number] = true
			errs = append(errs, b.close())
		}
	}
	return errors.Join(errs...)
}

// takeBlock takes a block that no process has, and whose addresses are not in use.
func takeBlock() (*block, error) {
	if err := sweepOnce(); err != nil {
		return nil, denied(err)
	}
	used, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("networktest: %w", err)
	}
	start := rand.IntN(blocks)
	for i := range blocks {
		b := lockBlock((start + i) % blocks)
		if b == nil {
			continue
		}
		if !b.overlaps(used) {
			return b, nil
		}
		_ = b.lock.Close()
	}
	return nil, errors.New("networktest: no free block of addresses for a network")
}

func lockBlock(number int) *block {
	l, err := net.Listen("unix", fmt.Sprintf("@elector-servertest-%d", number))
	if err != nil {
		return nil // another process has this block
	}
	return &block{number, l}
}

func (b *block) overlaps(addrs []net.Addr) bool {
	_, own, _ := net.ParseCIDR(b.ip(0) + "/24") // it parses
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && (n.Contains(own.IP) || own.Contains(n.IP)) {
			return true
		}
	}
	return false
}

// build makes the hosts and their links.
//
// Neighbours are set by hand: if hosts asked for them, a dropped direction would lose the question or its
// answer, and so break the other direction.
func (b *block) build(hosts []Site) error {
	for _, h := range hosts {
		if err := tool("ip", "netns", "add", h.Netns); err != nil {
			return denied(err)
		}
	}
	var links, tests strings.Builder
	inside := make([]strings.Builder, len(hosts))
	for i, h := range hosts {
		fmt.Fprintf(&links, "link add name %s address %s type veth peer name %s address %s netns %s\n",
			b.link(i), b.mac(testsNumber, i), out, b.mac(i, testsNumber), h.Netns)
		fmt.Fprintf(&inside[i], "link set dev lo up\naddress add %s/32 dev lo\n", h.IP)
		fmt.Fprintf(&tests, "address add %s/32 dev %s\n", b.ip(testsNumber), b.link(i))
		lead(&tests, b.link(i), b.ip(testsNumber), h.IP, b.mac(i, testsNumber))
		lead(&inside[i], out, h.IP, b.ip(testsNumber), b.mac(testsNumber, i))
		for j := range i {
			fmt.Fprintf(&links, "link add name %s address %s netns %s type veth peer name %s address %s netns %s\n",
				linkTo(j), b.mac(i, j), h.Netns, linkTo(i), b.mac(j, i), hosts[j].Netns)
			lead(&inside[i], linkTo(j), h.IP, hosts[j].IP, b.mac(j, i))
			lead(&inside[j], linkTo(i), hosts[j].IP, h.IP, b.mac(i, j))
		}
	}
	for _, batch := range []string{links.String(), tests.String()} {
		if _, err := toolWith(batch, "ip", "-batch", "-"); err != nil {
			return denied(err)
		}
	}
	for i, h := range hosts {
		if _, err := toolWith(inside[i].String(), "ip", "-n", h.Netns, "-batch", "-"); err != nil {
			return denied(err)
		}
	}
	// If this kernel cannot drop packets, tests must know before they begin.
	last := hosts[len(hosts)-1].Netns
	if err := tool("tc", "-n", last, "qdisc", "add", "dev", out, "root", "blackhole"); err != nil {
		return denied(err)
	}
	return tool("tc", "-n", last, "qdisc", "del", "dev", out, "root")
}

// lead makes packets to another address leave by a link.
func lead(batch *strings.Builder, link, from, to, mac string) {
	fmt.Fprintf(batch, "link set dev %s up\n", link)
	fmt.Fprintf(batch, "route add %s/32 dev %s src %s\n", to, link, from)
	fmt.Fprintf(batch, "neighbour add %s lladdr %s dev %s nud permanent\n", to, mac, link)
}

// mac returns the address of the link from a host, or the tests, to another.
func (b *block) mac(of, to int) string {
	return fmt.Sprintf("02:65:6c:%02x:%02x:%02x", b.number, of, to)
}

// close removes the block's contents and then releases it: leftovers would trip up another owner.
func (b *block) close() error {
	if err := b.remove(); err != nil {
		return err
	}
	return b.lock.Close()
}

// remove ends the processes in the block's namespaces, and removes the namespaces and their links.
func (b *block) remove() error {
	names, err := netnsNames()
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, fmt.Sprintf(netnsPrefix, b.number)) {
			err = errors.Join(err, removeNetns(name))
		}
	}
	return err
}

// removeNetns removes a namespace. Its links go first: a dead process's connection that waits for an answer
// would keep the namespace, and the links, for minutes.
func removeNetns(name string) error {
	pids, err := toolWith("", "ip", "netns", "pids", name)
	if err != nil {
		return err
	}
	for _, field := range strings.Fields(pids) {
		if pid, err := strconv.Atoi(field); err == nil {
			_ = endProcess(pid) // it may have ended by itself
		}
	}
	text, err := toolWith("", "ip", "-n", name, "-json", "link", "show", "type", "veth")
	if err != nil {
		return err
	}
	var links []struct{ Ifname string }
	if text = strings.TrimSpace(text); text != "" {
		if err := json.Unmarshal([]byte(text), &links); err != nil {
			return fmt.Errorf("networktest: the links of %s: %w", name, err)
		}
	}
	for _, l := range links {
		if err := tool("ip", "-n", name, "link", "delete", "dev", l.Ifname); err != nil {
			return err
		}
	}
	return tool("ip", "netns", "delete", name)
}

func endProcess(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Signal(syscall.SIGKILL)
}

// tool runs one of the programs that make networks. Its error contains the program's output.
func tool(name string, args ...string) error {
	_, err := toolWith("", name, args...)
	return err
}

// toolWith is tool with an input for the program. It returns the program's output.
func toolWith(stdin, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.WaitDelay = 5 * time.Second
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("networktest: %s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// netnsNames returns the names of all named network namespaces.
func netnsNames() ([]string, error) {
	text, err := toolWith("", "ip", "netns", "list")
	if err != nil {
		return nil, err
	}
	var names []string
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 0 { // "name (id: 3)"
			names = append(names, fields[0])
		}
	}
	return names, nil
}
