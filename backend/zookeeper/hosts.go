package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
	"github.com/elector-go/elector/backend/zookeeper/internal/wire"
)

// The pause after all servers have been tried in vain, or after a refusal that may pass. It doubles
// from the first to the last.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
)

// hosts hands out the servers in turn, by name. It is the client library's HostProvider and Dialer in
// one.
//
// The library's own provider looks names up once, and fails as a whole when one lookup fails. Here the
// dialer looks them up at each attempt. The library also sleeps a whole second after each round, which
// is long for a short session timeout, and flushes the queued requests; here the pause is before the
// dial and can be interrupted, and queued requests stay queued.
type hosts struct {
	servers   []string      // the first one is asked first
	trusting  bool          // a handshake is the only sign that a server serves
	exhausted chan struct{} // closed after all have been tried in vain for the first time
	addresses addresses

	mu       sync.Mutex
	next     int
	tried    int       // attempts since a server was seen to serve for a while
	since    time.Time // of the last handshake
	served   bool      // since that handshake
	closing  bool
	failures map[string]error // why each server could not be used
}

func newHosts(servers []string, trusting bool) *hosts {
	h := &hosts{trusting: trusting, exhausted: make(chan struct{}), failures: make(map[string]error)}
	for _, i := range rand.Perm(len(servers)) {
		h.servers = append(h.servers, servers[i])
	}
	return h
}

// reached is a server that has accepted a connection.
type reached struct {
	conn  net.Conn
	began time.Time
}

// reach connects to the first server that accepts a connection, and makes Next begin with that server.
// A session's buffers are expensive, and candidates retry again and again while no server can be
// reached.
func (h *hosts) reach(ctx context.Context, cfg *Config, timeout time.Duration) (*reached, error) {
	for i, server := range h.servers {
		began := time.Now()
		conn, err := cfg.dial(ctx, &h.addresses, "tcp", server, timeout)
		switch {
		case err == nil:
			h.servers = slices.Concat(h.servers[i:], h.servers[:i])
			return &reached{conn, began}, nil
		case ctx.Err() != nil:
			return nil, h.over(ctx)
		}
		h.note(server, err)
	}
	return nil, as(backend.ErrUnavailable, h.failure())
}

// over returns the error of a search that ctx has ended.
func (h *hosts) over(ctx context.Context) error {
	if err := h.failure(); err != nil {
		return fmt.Errorf("%w: %w", driver.ContextError(ctx), err)
	}
	return driver.ContextError(ctx)
}

// Init implements zk.HostProvider. The list is known already.
func (h *hosts) Init([]string) error { return nil }

// Len implements zk.HostProvider.
func (h *hosts) Len() int { return len(h.servers) }

// Next implements zk.HostProvider. The library checks whether it is closed only when Next reports the
// end of a round; so Next reports one when hosts is closing.
func (h *hosts) Next() (server string, retryStart bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	// A server before 3.9.3 may take two users who log in at once for one another (ZOOKEEPER-4839): one that
	// refuses is asked twice.
	if h.tried == len(h.servers) && h.refused() == 0 || h.tried == 2*len(h.servers) {
		h.signal()
	}
	// Without this, a link that breaks right after each handshake, such as for a request that the
	// server does not accept, would be made again and again without a pause.
	if h.served && time.Since(h.since) > 2*max(h.longest(), firstPause) {
		h.tried = 0
	}
	h.served = false
	h.tried++
	server = h.servers[h.next%len(h.servers)]
	h.next++
	return server, h.closing
}

// Connected implements zk.HostProvider: a session was granted or resumed. That does not mean that the
// server serves: see session.beat.
func (h *hosts) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.failures)
	h.since, h.served = time.Now(), h.trusting
}

// serves notes that the server of the present link serves.
func (h *hosts) serves() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.served = true
}

// works notes that a commit was done: the links are useful even if they are short-lived.
func (h *hosts) works() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tried = 0
}

// close ends the search.
func (h *hosts) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closing = true
}

func (h *hosts) note(server string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failures[server] = err
}

// noSession returns the error of a search in which no server has granted a session: backend.ErrDenied if all of
// them refuse Config.SASL.
func (h *hosts) noSession() error {
	err := h.failure()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refused() == len(h.servers) {
		return as(backend.ErrDenied, err)
	}
	return as(backend.ErrUnavailable, err)
}

// refuse reports whether all servers have been asked twice, and some refuse Config.SASL.
func (h *hosts) refuse() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.tried >= 2*len(h.servers) && h.refused() > 0
}

// refused returns how many servers refuse Config.SASL. The caller holds mu.
func (h *hosts) refused() (n int) {
	for _, why := range h.failures {
		if errors.As(why, new(refusal)) {
			n++
		}
	}
	return n
}

// failure returns what went wrong with each server, or nil. What went wrong with several servers is said once.
func (h *hosts) failure() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	with := make(map[string][]string) // servers by texts
	for server, err := range h.failures {
		with[err.Error()] = append(with[err.Error()], server)
	}
	var all []error
	for _, servers := range with {
		slices.Sort(servers)
		all = append(all, fmt.Errorf("%s: %w", strings.Join(servers, ", "), h.failures[servers[0]]))
	}
	slices.SortFunc(all, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(all...)
}

func (h *hosts) signal() {
	select {
	case <-h.exhausted:
	default:
		if len(h.failures) == 0 && h.since.IsZero() {
			h.failures["all servers"] = errors.New("no session was granted")
		}
		close(h.exhausted)
	}
}

// pause returns how long to wait before the attempt that Next has just handed out.
func (h *hosts) pause() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := h.longest()
	if d == 0 || (h.tried-1)%len(h.servers) != 0 {
		return 0
	}
	return d/2 + rand.N(d/2)
}

// longest returns the longest pause after the rounds made so far. The caller holds mu.
func (h *hosts) longest() time.Duration {
	rounds := max(h.tried-1, 0) / len(h.servers)
	if rounds == 0 {
		return 0
	}
	return pauseAfter(rounds - 1)
}

// pauseAfter returns the longest pause after n failures.
func pauseAfter(n int) time.Duration { return min(firstPause<<min(n, 10), lastPause) }

// dial implements zk.Dialer for one session. It ignores the library's timeout of one second, and uses
// Config.ConnectTimeout for the whole handshake.
func (s *session) dial(network, address string, _ time.Duration) (net.Conn, error) {
	if pause := s.hosts.pause(); pause > 0 {
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-s.dialing.Done():
			timer.Stop()
		}
	}
	if s.dialing.Err() != nil {
		return nil, context.Cause(s.dialing)
	}
	if err := s.pin.Dialing(); err != nil {
		return nil, err
	}
	timeout := s.cfg.connectTimeout(s.asked)
	if s.isOpen() {
		timeout = s.patience(timeout)
	}
	r := s.first
	s.first = nil
	if r == nil {
		r = &reached{began: time.Now()}
		var err error
		if r.conn, err = s.cfg.dial(s.dialing, &s.hosts.addresses, network, address, timeout); err != nil {
			s.failed(address, err)
			return nil, err
		}
	}
	x, err := s.cfg.startSASL(s.dialing, address, r.began, timeout)
	if err != nil {
		_ = r.conn.Close() // nothing was sent on it
		s.failed(address, refusedBy(err))
		return nil, err
	}
	notGranted := errors.New("connected, but no session was granted")
	s.failed(address, notGranted)
	l, err := s.pin.Attach(r.conn, max(timeout-time.Since(r.began), timeout/4))
	if err != nil {
		return nil, err
	}
	l.Unanswered(func(err error) { s.failed(address, fmt.Errorf("%w: %w", notGranted, err)) })
	if x != nil {
		l.Authenticate(x, func(err error) { s.failed(address, refusedBy(err)) })
	}
	s.hurry(l) // the session may have been closed since
	return l, nil
}

// failed notes why a server is unusable so far, which is why the session is suspended.
func (s *session) failed(server string, err error) {
	s.hosts.note(server, err)
	s.Suspend(s.hosts.failure())
}

// hurry limits links that are being made while the session closes to half of the remaining time, if
// another server may be faster.
func (s *session) hurry(links ...*wire.Link) {
	if by, closing := s.closing(); closing && s.hosts.Len() > 1 {
		for _, l := range links {
			l.Hurry(time.Now().Add(time.Until(by) / 2))
		}
	}
}
