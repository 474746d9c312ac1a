// Package doctor checks whether a coordination service, with this process's credentials, is fit for leader
// election. It asks each server by itself, and then does on the service what a candidate does.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/backend/dial"
	"github.com/elector-go/elector/backend/etcd"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/backend/zookeeper"
)

// answerWithin bounds one answer of a server. A frozen server accepts connections, and never answers.
const answerWithin = 3 * time.Second

// A Level says how bad a finding is.
type Level string

const (
	OK      Level = "ok"
	Unknown Level = "unknown" // it cannot be told, and may be fine
	Warn    Level = "warn"    // elections work, for now
	Fail    Level = "fail"    // elections do not work, or not for these credentials
)

// A Finding is the result of one check. Quotes of a service's answers are that service's text.
type Finding struct {
	Check string `json:"check"`
	Level Level  `json:"level"`
	Says  string `json:"says"`
	Do    string `json:"do,omitempty"` // what to do about it
}

// Findings are in the order in which they were made.
type Findings []Finding

// maxSays bounds a finding, which may quote what anybody has sent.
const maxSays = 500

func (f *Findings) add(check string, l Level, do, format string, args ...any) {
	says := fmt.Sprintf(format, args...)
	if len(says) > maxSays {
		says = strings.ToValidUTF8(says[:maxSays], "") + "…"
	}
	*f = append(*f, Finding{check, l, says, do})
}

// A Server is the findings about one server.
type Server struct {
	Address  string   `json:"address"`
	Findings Findings `json:"findings"`

	heard atomic.Bool       // it has sent something
	use   error             // why it is useless, or nil
	facts map[string]string // what must be the same on all servers
}

// A Report is all findings.
type Report struct {
	URL     string    `json:"url"`
	Path    string    `json:"path"`
	Level   Level     `json:"level"` // of the worst finding: OK, Warn or Fail
	Servers []*Server `json:"servers,omitempty"`
	Service Findings  `json:"service"`
}

// Check checks the service that a URL names, and whether it can hold what a candidate needs below path ("/":
// anywhere) in it: it writes there for a moment, and deletes what it wrote. It blocks until all is known or
// ctx ends, and then for some seconds to delete. The Report has the findings until then. The error says that
// the URL, the path or the settings of the credentials are wrong: then nothing was asked.
func Check(ctx context.Context, url, path string) (Report, error) {
	r := Report{URL: url, Path: path}
	if path != "/" {
		if err := backend.CheckKey(path); err != nil {
			return r, err
		}
	}
	servers, err := dial.Servers(url)
	if err != nil {
		return r, err
	}
	dead := make(map[string]error)
	pastDead := dial.WithDialContext(func(ctx context.Context, network, address string) (net.Conn, error) {
		if err := dead[address]; err != nil {
			return nil, err // a candidate would find out, too, and take longer
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	})
	options := []dial.Option{pastDead}
	if strings.HasPrefix(url, "etcd") && slices.ContainsFunc(servers, func(s dial.Server) bool { _, ok := throughProxy(s.Address); return ok }) {
		options = nil // as a custom dialer bypasses the proxy
	}
	b, err := dial.Open(ctx, url, options...)
	if err != nil {
		return r, err
	}
	defer b.Close() // its error concerns no finding

	var all sync.WaitGroup
	for _, named := range servers {
		s := &Server{Address: named.Address, facts: make(map[string]string)}
		r.Servers = append(r.Servers, s)
		all.Go(func() { s.check(ctx, named.URL, len(servers) > 1) })
	}
	all.Wait()
	for _, s := range r.Servers {
		if s.use != nil {
			dead[s.Address] = s.use
		}
	}
	r.compare()
	r.observers(b.Limits().DefaultTTL)
	if _, here := b.Backend.(*memory.Service); here {
		r.Service.add("servers", OK, "", "the service is in this process: there is no server to reach, and its clock is this process's")
	}
	if len(servers) == 0 || len(dead) < len(servers) {
		checkService(ctx, b, path, &r.Service)
	} else {
		r.Service.add("servers", Fail, "see what is said of each server", "no server can be used")
	}
	r.judge()
	return r, nil
}

// judge finds the level of the worst finding.
func (r *Report) judge() {
	r.Level = OK
	all := r.Service
	for _, s := range r.Servers {
		all = slices.Concat(all, s.Findings)
	}
	for _, f := range all {
		if f.Level == Fail || f.Level == Warn && r.Level == OK {
			r.Level = f.Level
		}
	}
}

// compare checks what must be the same on all servers.
func (r *Report) compare() {
	for _, name := range []string{"cluster", "version", "tickTime", "minSessionTimeout", "maxSessionTimeout"} {
		var values, where []string
		for _, s := range r.Servers {
			if v := s.facts[name]; v != "" && !slices.Contains(values, v) {
				values, where = append(values, v), append(where, s.Address+" has "+v)
			}
		}
		switch differ := strings.Join(where, ", "); {
		case len(values) < 2:
		case name == "cluster":
			r.Service.add(name, Fail, "name servers of one cluster in the URL", "the servers are not of one cluster: %s", differ)
		case name == "version":
			r.Service.add(name, Warn, "end the upgrade", "the servers' versions differ: %s", differ)
		default:
			r.Service.add(name, Warn, "stop the candidates, and give all servers the same", "%s differs: %s", name, differ)
		}
	}
}

// unfit notes a finding that makes the server useless. Elections work without it as long as there are others.
func (s *Server) unfit(check, do, format string, args ...any) {
	s.Findings.add(check, Warn, do, format, args...)
	s.use = errors.New(s.Findings[len(s.Findings)-1].Says)
}

// check checks one server. opens is whether it opens a session there.
func (s *Server) check(ctx context.Context, url string, opens bool) {
	if !s.reach(ctx) {
		return
	}
	b, err := dial.Open(ctx, url, dial.WithDialContext(s.dial))
	if err != nil { // it was opened before
		s.unfit("client", "", "%v", err)
		return
	}
	defer b.Close() // its error concerns no finding
	switch b := b.Backend.(type) {
	case *zookeeper.Backend:
		s.zooKeeper(ctx, b)
	case *etcd.Backend:
		s.etcd(ctx, b.Client())
	case *consul.Backend:
		s.consul(ctx, b)
	}
	if s.use != nil || !opens {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	session, err := b.Open(ctx, backend.OpenOptions{})
	switch {
	case errors.Is(err, backend.ErrDenied):
		s.Findings.add("session", Warn, lackRights, "%v", err) // the check of the service will tell
	case err != nil:
		s.unfit("session", "if the cause is not named, see its log: it may have lost touch with the other servers", "answers, and grants no session: %v", err)
	default:
		s.Findings.add("session", OK, "", "grants sessions")
		closing(ctx, session)
	}
}

// reach connects, and notes what is wrong as soon as it is known.
func (s *Server) reach(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	began := time.Now()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.Address)
	var lookup *net.DNSError
	switch {
	case err == nil:
		_ = conn.Close() // nothing was said on it
		s.Findings.add("reachable", OK, "", "connected in %v", rounded(time.Since(began)))
		return true
	case errors.As(err, &lookup):
		s.unfit("reachable", "check the name in the URL, and this machine's DNS", "the name is not resolved: %v", err)
	case strings.Contains(err.Error(), "refused"): // in different words on each system
		s.unfit("reachable", "start the server, or check the port", "connection refused: nothing listens there")
	case ctx.Err() != nil:
		s.unfit("reachable", "is the machine up? Does a firewall drop packets?", "no connection within %v", answerWithin)
	default:
		s.unfit("reachable", "check the address and the network", "%v", err)
	}
	return false
}

// dial dials, and notes when the server is heard.
func (s *Server) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &line{conn, &s.heard}, nil
}

// A line notes that the other side has sent something, or has hung up.
type line struct {
	net.Conn
	heard *atomic.Bool
}

func (l *line) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if n > 0 || err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, os.ErrDeadlineExceeded) {
		l.heard.Store(true)
	}
	return n, err
}

// failed notes why a server that accepted the connection did not answer.
func (s *Server) failed(ctx context.Context, err error) {
	text := err.Error()
	if _, cause, ok := strings.Cut(text, `connection error: desc = "`); ok { // gRPC's words
		text = strings.TrimSuffix(cause, `"`)
	}
	switch {
	case !s.heard.Load():
		s.unfit("answers", "its process is stopped, swaps, or hangs; or it wants TLS, or is another service", "accepts connections but does not answer")
	case ctx.Err() != nil:
		s.unfit("answers", "see its log, and check the certificates", "gives no answer to the request within %v: %s", answerWithin, text)
	default:
		s.unfit("answers", "check the scheme, the port and tls= in the URL, and the certificates: docs/settings.md, Secured services", "connected, and then: %s", text)
	}
}

// tellVersion notes the version, which must be major.minor or later.
func (s *Server) tellVersion(v string, major, minor int) {
	v = fmt.Sprintf("%.60s", v)
	s.facts["version"] = v
	parts := append(strings.SplitN(strings.TrimPrefix(v, "v"), ".", 3), "")
	a, err := strconv.Atoi(parts[0])
	b, err2 := strconv.Atoi(parts[1])
	switch {
	case err != nil || err2 != nil:
		s.Findings.add("version", Unknown, "", "says %q", v)
	case a < major || a == major && b < minor:
		s.Findings.add("version", Fail, "upgrade the server", "%s: elector needs %d.%d or later", v, major, minor)
	default:
		s.Findings.add("version", OK, "", "%s", v)
	}
}

func rounded(d time.Duration) time.Duration {
	if d > time.Millisecond {
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Microsecond)
}
