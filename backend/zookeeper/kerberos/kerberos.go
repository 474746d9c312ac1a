// Package kerberos authenticates links to ZooKeeper by SASL with GSSAPI, which is Kerberos 5:
//
//	sasl, err := kerberos.New(kerberos.Config{Keytab: "/etc/elector.keytab", Principal: "elector@EXAMPLE.COM"})
//	...
//	b, err := zookeeper.New(zookeeper.Config{Servers: []string{"zk1.example.com:2181"}, SASL: sasl})
//
// It is a module of its own, so that only those compile github.com/jcmturner/gokrb5 who import it. Package
// dialkerberos brings it to URLs.
//
// A client's identity in an ACL is sasl: and its principal, unless the servers are told to shorten that.
//
// # What it guarantees
//
//   - The client authenticates the server, too: one that does not have the key of its principal is refused.
//   - A ticket is used for all sessions until 4/5 of its life are over. Then another one is fetched beside the work,
//     and links get the old one as long as it lives. So a KDC that is away for a while is not noticed.
//   - No ticket's end ends a link or a session. If the KDC is away when a new link needs a ticket, the link fails,
//     and a term lasts as long as its window.
//   - The keytab, the credential cache and krb5.conf are read again for each ticket.
//   - Nothing that is printed or logged contains a key or a ticket.
//
// # What it does not
//
// It reads credential caches in files (FILE:) only, and renews none: kinit -R, k5start or sssd do that. It has no
// encryption types but AES, and no security layer: use TLS.
package kerberos

import (
	"cmp"
	"context"
	"crypto/fips140"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/zookeeper"
)

// Config says whose tickets are used. The zero value is that of a user who has called kinit.
type Config struct {
	// ServerPrincipal is the servers' principal, by default zookeeper/_HOST. _HOST stands for the host in
	// Config.Servers of package zookeeper, in lower case. By default the realm is the one that krb5.conf has for
	// the host, or the client's.
	ServerPrincipal string

	// Keytab is the path of the keytab with the client's key, by default that in the environment variable
	// KRB5_CLIENT_KTNAME. If there is none, the credential cache is used.
	Keytab string

	// Principal is the client's in the keytab, by default the first one. Without a realm it is of krb5.conf's
	// default_realm.
	Principal string

	// Cache is the credential cache if there is no keytab, by default that in the environment variable KRB5CCNAME,
	// or /tmp/krb5cc_ and the number of the user.
	Cache string

	// Krb5Conf is the path of krb5.conf, by default the first of those in the environment variable KRB5_CONFIG that
	// there is, or /etc/krb5.conf. What it includes is read, too.
	Krb5Conf string
}

// New returns the mechanism. It reads the files, and reports what is wrong with them. It asks no KDC. A credential
// cache may be made later.
func New(c Config) (zookeeper.SASL, error) {
	c.ServerPrincipal = cmp.Or(c.ServerPrincipal, "zookeeper/_HOST")
	if name, _, _ := strings.Cut(c.ServerPrincipal, "@"); strings.Count(name, "/") != 1 || strings.HasPrefix(name, "/") || strings.HasSuffix(name, "/") {
		return nil, fmt.Errorf("kerberos: Config.ServerPrincipal is %q: give service/host or service/_HOST, and @REALM if it is another one", c.ServerPrincipal)
	}
	if c.Cache == "" && c.Keytab == "" {
		c.Keytab = strings.TrimPrefix(os.Getenv("KRB5_CLIENT_KTNAME"), "FILE:")
	}
	c.Cache = cmp.Or(c.Cache, os.Getenv("KRB5CCNAME"), fmt.Sprintf("/tmp/krb5cc_%d", os.Getuid()))
	if kind, _, typed := strings.Cut(c.Cache, ":"); typed && kind != "FILE" && c.Keytab == "" {
		return nil, fmt.Errorf("kerberos: the credential cache is %q: only files are read, FILE:path: set KRB5CCNAME, or take a keytab", c.Cache)
	}
	c.Cache = strings.TrimPrefix(c.Cache, "FILE:")
	if c.Krb5Conf == "" {
		c.Krb5Conf = "/etc/krb5.conf"
		for _, path := range filepath.SplitList(os.Getenv("KRB5_CONFIG")) {
			if _, err := os.Stat(path); err == nil {
				c.Krb5Conf = path
				break
			}
		}
	}
	if _, err := c.krb5Conf(); err != nil {
		return nil, err
	}
	m := &mechanism{config: c, who: "the cache " + c.Cache, tickets: make(map[string]*ticket), fetching: make(map[string]*fetch)}
	if c.Keytab != "" {
		k, err := c.key()
		if err != nil {
			return nil, err
		}
		m.who = k.String()
	}
	m.fetch = func(principal string) (*ticket, error) { return m.config.fetch(principal) }
	return m, nil
}

type mechanism struct {
	config Config
	fetch  func(principal string) (*ticket, error) // replaced by tests

	mu       sync.Mutex
	who      string             // the client, as far as it is known
	tickets  map[string]*ticket // by the servers' principals
	fetching map[string]*fetch
}

// A fetch is on its way, or done.
type fetch struct {
	done   chan struct{}
	ticket *ticket
	err    error
}

// String names the client of a cache once a ticket has been fetched.
func (m *mechanism) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return "GSSAPI for " + m.who
}

func (m *mechanism) GoString() string { return m.String() }

// Start implements zookeeper.SASL.
func (m *mechanism) Start(ctx context.Context, host string) (zookeeper.Exchange, error) {
	principal := strings.ReplaceAll(m.config.ServerPrincipal, "_HOST", strings.ToLower(host))
	m.mu.Lock()
	t, now := m.tickets[principal], time.Now()
	f := m.fetching[principal]
	if f == nil && (t == nil || t.stale(now)) {
		f = m.begin(principal)
	}
	m.mu.Unlock()
	if t == nil || t.over(now) {
		select {
		case <-f.done:
		case <-ctx.Done():
			return nil, fmt.Errorf("no ticket for %s: the KDC has not answered: %w", principal, context.Cause(ctx))
		}
		if f.err != nil {
			return nil, f.err
		}
		t = f.ticket
	}
	return newExchange(t, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.tickets[principal] == t { // the server may have another key by now
			delete(m.tickets, principal)
		}
	})
}

// begin begins a fetch. The caller holds mu.
func (m *mechanism) begin(principal string) *fetch {
	f := &fetch{done: make(chan struct{})}
	m.fetching[principal] = f
	go func() {
		f.ticket, f.err = m.fetched(principal)
		m.mu.Lock()
		defer m.mu.Unlock()
		if f.err == nil {
			m.tickets[principal], m.who = f.ticket, f.ticket.user()
		}
		delete(m.fetching, principal)
		close(f.done)
	}()
	return f
}

// crashed returns why the library has crashed.
func crashed(otherwise string) error {
	if fips140.Enforced() {
		return fmt.Errorf("%w: this program's FIPS 140-only mode allows no encryption type with SHA-1: have the KDC and krb5.conf use aes256-cts-hmac-sha384-192", backend.ErrDenied)
	}
	return errors.New(otherwise)
}

// fetched calls fetch. The library may crash on what comes from the network in the KDC's name.
func (m *mechanism) fetched(principal string) (t *ticket, err error) {
	defer func() {
		if recover() != nil {
			t, err = nil, crashed("the KDC's reply is malformed")
		}
	}()
	return m.fetch(principal)
}
