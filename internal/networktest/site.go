package networktest

import (
	"net"
	"strconv"
)

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
