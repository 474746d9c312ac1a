package main

import (
	"context"
	"encoding/hex"
	"net"
	"net/netip"
	"strings"

	"github.com/miekg/dns"
)

// ttl is for how many seconds others keep an answer, or that there is none. They may go to an address that is
// dead already for as long: it does not help them that a resolver hears of it at once.
const ttl = 2

// A Zone is a resolver's names as a DNS zone: A and AAAA for NAME.zone. have its addresses, and SRV its
// ports. What SRV points to is 7f000001.addr.zone., the address in hexadecimal, as Consul's DNS has it.
type Zone struct {
	Name   string // canonical: "example."
	Lookup func(name string) (addrs []netip.AddrPort, known bool)
}

// Serve answers over UDP and TCP until ctx ends.
func (z Zone) Serve(ctx context.Context, udp net.PacketConn, tcp net.Listener) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for _, server := range []*dns.Server{{PacketConn: udp, Handler: z}, {Listener: tcp, Handler: z}} {
		go func() { cancel(server.ActivateAndServe()) }()
	}
	<-ctx.Done()
	_, _ = udp.Close(), tcp.Close()
	return context.Cause(ctx)
}

// ServeDNS implements dns.Handler.
func (z Zone) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	m := z.answer(q)
	if size := dns.MinMsgSize; w.RemoteAddr().Network() == "udp" {
		if opt := q.IsEdns0(); opt != nil {
			size = max(size, int(opt.UDPSize()))
			m.SetEdns0(1232, false)
		}
		m.Truncate(size)
	}
	_ = w.WriteMsg(m) // the client asks again
}

func (z Zone) answer(q *dns.Msg) *dns.Msg {
	m := new(dns.Msg).SetReply(q)
	name, ask := dns.CanonicalName(q.Question[0].Name), q.Question[0].Qtype
	if !dns.IsSubDomain(z.Name, name) || q.Question[0].Qclass != dns.ClassINET {
		return m.SetRcode(q, dns.RcodeRefused)
	}
	addrs, known := z.find(strings.TrimSuffix(strings.TrimSuffix(name, z.Name), "."))
	if !known {
		return m.SetRcode(q, dns.RcodeServerFailure) // another server may know
	}
	m.Authoritative = true
	header := func(name string, kind uint16) dns.RR_Header {
		return dns.RR_Header{Name: name, Rrtype: kind, Class: dns.ClassINET, Ttl: ttl}
	}
	address := func(name string, ip netip.Addr) dns.RR {
		if ip = ip.Unmap(); ip.Is4() {
			return &dns.A{Hdr: header(name, dns.TypeA), A: ip.AsSlice()}
		}
		return &dns.AAAA{Hdr: header(name, dns.TypeAAAA), AAAA: ip.AsSlice()}
	}
	for _, addr := range addrs {
		rr := address(q.Question[0].Name, addr.Addr())
		switch {
		case ask == dns.TypeSRV && addr.Port() != 0:
			target := hex.EncodeToString(addr.Addr().Unmap().AsSlice()) + ".addr." + z.Name
			m.Answer = append(m.Answer, &dns.SRV{Hdr: header(q.Question[0].Name, ask), Port: addr.Port(), Target: target})
			m.Extra = append(m.Extra, address(target, addr.Addr()))
		case rr.Header().Rrtype == ask || ask == dns.TypeANY:
			m.Answer = append(m.Answer, rr)
		}
	}
	m.Answer, m.Extra = dns.Dedup(m.Answer, nil), dns.Dedup(m.Extra, nil) // one address may have several ports
	if len(addrs) == 0 && name != z.Name && name != "addr."+z.Name {
		m.Rcode = dns.RcodeNameError
	}
	if len(m.Answer) == 0 { // others keep it for Minttl that there is nothing
		m.Ns = []dns.RR{&dns.SOA{Hdr: header(z.Name, dns.TypeSOA), Ns: "ns." + z.Name, Mbox: "hostmaster." + z.Name,
			Serial: 1, Refresh: ttl, Retry: ttl, Expire: ttl, Minttl: ttl}}
	}
	return m
}

// find returns the addresses of a name, or the one that an SRV record has pointed to.
func (z Zone) find(name string) (addrs []netip.AddrPort, known bool) {
	if digits, ok := strings.CutSuffix(name, ".addr"); ok {
		raw, _ := hex.DecodeString(digits)
		if ip, ok := netip.AddrFromSlice(raw); ok {
			return []netip.AddrPort{netip.AddrPortFrom(ip, 0)}, true
		}
	}
	return z.Lookup(name)
}
