package doctor

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/backend/dial"
	"github.com/elector-go/elector/backend/etcd"
	"github.com/elector-go/elector/backend/register"
	"github.com/elector-go/elector/backend/zookeeper"
	"github.com/elector-go/elector/internal/program"
)

const (
	commits = 10
	// apart is the time between the two writes by which clocks are compared.
	apart = 2 * time.Second
	// drift is the difference of the rates of two clocks that no sound pair has. Trust windows bear an eighth.
	drift = 0.01

	lackRights = "see the rights in docs/settings.md, Secured services (ZooKeeper: docs/secured-zookeeper.md); give this command the path of your elections"
)

// checkService does what a candidate does, below dir.
func checkService(ctx context.Context, b *dial.Backend, dir string, f *Findings) {
	l := b.Limits()
	s := open(ctx, b, l.DefaultTTL, "session", f)
	if s == nil {
		return
	}
	defer closing(ctx, s)
	if got := s.TTL(); got < l.DefaultTTL {
		f.add("session", Warn, "raise the servers' maxSessionTimeout, or give timeout= in the URL what there is", "asked for a timeout of %v, granted %v", l.DefaultTTL, got)
	} else if got > l.DefaultTTL {
		f.add("session", Warn, "lower the servers' least timeout, or give timeout= in the URL what there is", "asked for a timeout of %v, granted %v", l.DefaultTTL, got)
	} else {
		f.add("session", OK, "", "granted, with a timeout of %v", got)
	}
	span(ctx, b, f)
	switch b := b.Backend.(type) {
	case *consul.Backend:
		sessionNode(ctx, b, f)
	case *register.Backend:
		examine(ctx, b, f)
	}
	p := probe{ctx: ctx, s: s, f: f, dir: path.Join(dir, "elector-doctor-"+nonce())}
	defer p.clean()
	if _, is := b.Backend.(*zookeeper.Backend); is {
		p.quota()
	}
	if p.rights() {
		p.commits()
		p.clock(b)
	}
}

// open opens a session, or says why there is none.
func open(ctx context.Context, b backend.Backend, ttl time.Duration, check string, f *Findings) *backend.Session {
	ctx, cancel := context.WithTimeout(ctx, 3*answerWithin) // Consul's refusals are retried for five seconds
	defer cancel()
	s, err := b.Open(ctx, backend.OpenOptions{TTL: ttl})
	switch {
	case errors.Is(err, backend.ErrDenied):
		f.add(check, Fail, lackRights, "%v", err)
	case err != nil:
		f.add(check, Fail, "see the servers' logs, and check tls= in the URL", "%v", err)
	}
	return s
}

// closing ends a session even after ctx.
func closing(ctx context.Context, s *backend.Session) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerWithin)
	defer cancel()
	_ = s.Close(ctx) // it ends by itself
}

// span finds which timeouts the service grants, by asking for very short and very long ones.
func span(ctx context.Context, b *dial.Backend, f *Findings) {
	l := b.Limits()
	granted := func(ttl time.Duration) (got time.Duration) {
		if s := open(ctx, b, ttl, "timeouts", f); s != nil {
			got = s.TTL()
			closing(ctx, s)
		}
		return got
	}
	switch b.Backend.(type) {
	case *zookeeper.Backend:
		least, most := granted(l.MinTTL), granted(l.MaxTTL)
		if least > 0 && most > 0 {
			f.add("timeouts", OK, "", "grants session timeouts from %v to %v (minSessionTimeout or what was asked for, maxSessionTimeout)", least, most)
		}
	case *etcd.Backend:
		if least := granted(l.MinTTL); least > 0 {
			f.add("timeouts", OK, "", "grants session timeouts from %v (3/2 of --election-timeout, or what was asked for)", least)
		}
	case *consul.Backend, *register.Backend:
		f.add("timeouts", OK, "", "this URL takes session timeouts from %v to %v", l.MinTTL, l.MaxTTL)
	}
}

// examine notes what a store says of its settings.
func examine(ctx context.Context, b *register.Backend, f *Findings) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	found, err := b.Examine(ctx)
	if err != nil {
		f.add("settings", Unknown, "to see them here, give these credentials the right to read them", "%v", err)
	}
	for _, one := range found {
		level := Warn
		switch {
		case one.Hid:
			level = Unknown
		case one.Do == "":
			level = OK
		}
		f.add(one.Check, level, one.Do, "%s", one.Says)
	}
}

func nonce() string {
	var b [8]byte
	rand.Read(b[:]) // never fails, says its documentation
	return hex.EncodeToString(b[:])
}

// A probe is an election's keys for a moment.
type probe struct {
	ctx   context.Context
	s     *backend.Session
	f     *Findings
	dir   string
	made  []string      // keys that were missing, the deepest first
	entry backend.Entry // under dir, as last written
	under backend.Entry // of the session, enqueued in dir
}

// rights tries each right that a candidate needs, until one is missing.
func (p *probe) rights() bool {
	for _, right := range []struct {
		name string
		try  func() error
	}{
		{"read", p.missing},
		{"create", p.write},
		{"create entries of a session", func() error {
			made, err := p.s.Commit(p.ctx, nil, backend.Enqueue(p.dir, nil))
			if err == nil {
				p.under = made[0]
			}
			return err
		}},
		{"list", func() error {
			l, err := p.s.List(p.ctx, p.dir)
			if err == nil && !slices.Contains(l.Keys, p.under.Key) {
				err = errors.New("the entry that was just made is not listed")
			}
			return err
		}},
		{"watch", func() error {
			seen := make(chan error, 1)
			known := p.entry
			go func() {
				_, err := p.s.Await(p.ctx, known)
				seen <- err
			}()
			if err := p.write(); err != nil {
				return err // the session's end ends the wait
			}
			return <-seen
		}},
		{"delete", func() error { return p.s.Discard(p.ctx, p.under) }},
	} {
		began, below := time.Now(), path.Dir(p.dir)
		err := right.try()
		switch {
		case err == nil:
			continue
		case errors.Is(err, backend.ErrDenied):
			p.f.add("rights", Fail, lackRights, "these credentials may not %s below %s: %v", right.name, below, err)
		case p.ctx.Err() != nil:
			p.f.add("rights", Fail, "see the servers' logs", "tried to %s for %v, in vain: %v", right.name, rounded(time.Since(began)), err)
		default:
			p.f.add("rights", Fail, "see the servers' logs", "cannot %s: %v", right.name, err)
		}
		return false
	}
	p.f.add("rights", OK, "", "these credentials may create, read, list, watch and delete below %s", path.Dir(p.dir))
	return true
}

// missing finds which keys the probe creates.
func (p *probe) missing() error {
	var made []string
	for key := p.dir; key != "/"; key = backend.Parent(key) {
		_, err := p.s.Get(p.ctx, key)
		if err == nil {
			break
		}
		if !errors.Is(err, backend.ErrNoEntry) {
			return err
		}
		made = append(made, key)
	}
	p.made = made
	return nil
}

// write writes the probe's own entry.
func (p *probe) write() error {
	made, err := p.s.Commit(p.ctx, nil, backend.CompareAndSet(p.dir, []byte(nonce()), p.entry.Version))
	switch {
	case err == nil:
		p.entry = made[0]
	case errors.Is(err, backend.ErrDenied) && p.entry.Key == "":
		p.made = nil // nothing was created
	}
	return err
}

// clean deletes what was created, even after ctx. Keys above the probe stay if others use them by now, or if
// the rights are only for what is below them.
func (p *probe) clean() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), answerWithin)
	defer cancel()
	if p.made != nil && p.entry.Key == "" { // an unconfirmed creation may come late, and no later than this
		_, _ = p.s.Commit(ctx, nil, backend.CompareAndSet(p.dir, nil, 0))
	}
	if p.under.Exists() {
		_ = p.s.Discard(ctx, p.under) // it is gone with the session at the latest
	}
	for i, key := range p.made {
		err := p.remove(ctx, key)
		for i == 0 && errors.Is(err, backend.ErrConflict) && program.Sleep(ctx, 50*time.Millisecond) == nil {
			err = p.remove(ctx, key) // an entry below whose creation was cut off is being removed
		}
		switch {
		case err == nil:
		case i > 0 && (errors.Is(err, backend.ErrConflict) || errors.Is(err, backend.ErrDenied)):
			p.f.add("clean", OK, "", "%s stays: elections below it make it, too", key)
			return
		default:
			p.f.add("clean", Warn, "delete it by hand", "%s may have been left in the service: %v", key, err)
			return
		}
	}
}

// remove deletes the entry under key, if there is one.
func (p *probe) remove(ctx context.Context, key string) error {
	e, err := p.s.Get(ctx, key)
	if err == nil {
		_, err = p.s.Commit(ctx, nil, backend.Delete(e))
	}
	if errors.Is(err, backend.ErrNoEntry) {
		return nil
	}
	return err
}

// commits measures how long a commit takes.
func (p *probe) commits() {
	var took []time.Duration
	for range commits {
		began := time.Now()
		if err := p.write(); err != nil {
			p.f.add("commit", Fail, "see the servers' logs", "%v", err)
			return
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	says := fmt.Sprintf("%d commits took %v at least, %v as a rule, %v at most", commits, rounded(took[0]), rounded(took[commits/2]), rounded(took[commits-1]))
	if ttl := p.s.TTL(); took[commits-1] > ttl/8 {
		p.f.add("commit", Warn, "take a longer timeout=, or see what slows the servers: disks, load, the network", "%s: more than an eighth of the session timeout of %v", says, ttl)
		return
	}
	p.f.add("commit", OK, "", "%s", says)
}

// clock compares the rate of the service's clock with this machine's. Trust windows rely on it.
func (p *probe) clock(b *dial.Backend) {
	switch b.Backend.(type) {
	case *etcd.Backend:
		p.f.add("clock", Unknown, ntp, "etcd reports no time to compare with")
		return
	case *consul.Backend:
		p.f.add("clock", Unknown, ntp, "Consul reports its time in seconds only, which is too coarse to compare with")
		return
	case *zookeeper.Backend:
	default:
		return
	}
	first, err := p.stamp()
	if err == nil {
		err = program.Sleep(p.ctx, apart)
	}
	var second stamp
	if err == nil {
		second, err = p.stamp()
	}
	if err != nil {
		p.f.add("clock", Unknown, "", "%v", err)
		return
	}
	p.f.rate(first, second)
}

const ntp = "see that NTP runs on the servers and here"

// A stamp is an instant of the service's clock, in ms, that lies between two of this process's.
type stamp struct {
	sent, answered time.Time
	service        int64
}

// rate compares the clocks by two stamps.
func (f *Findings) rate(a, b stamp) {
	least, most := b.sent.Sub(a.answered), b.answered.Sub(a.sent)
	service := time.Duration(b.service-a.service) * time.Millisecond
	low, high := float64(service-time.Millisecond)/float64(most)-1, float64(service+time.Millisecond)/float64(max(least, 1))-1
	says := fmt.Sprintf("in %v the service's clock has gone %+.2f %% to %+.2f %% further than this machine's", rounded(most), 100*low, 100*high)
	if low > drift || high < -drift {
		f.add("clock", Warn, ntp+", and that nobody sets a clock", "%s", says)
		return
	}
	f.add("clock", OK, "", "%s", says)
}

// stamp writes, and reads the time of the write by the clock of ZooKeeper's leader.
func (p *probe) stamp() (stamp, error) {
	sent := time.Now()
	err := p.write()
	answered := time.Now()
	if err != nil {
		return stamp{}, err
	}
	_, stat, err := zookeeper.Conn(p.s).Exists(zookeeper.Path(p.s, p.dir))
	if err != nil {
		return stamp{}, err
	}
	return stamp{sent, answered, stat.Mtime}, nil
}
