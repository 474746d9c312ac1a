package register

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
	"github.com/elector-go/elector/conformance"
)

// An object is a store's only object, in memory.
type object struct {
	mu      sync.Mutex
	text    []byte
	swaps   int
	moved   int // swaps that were refused
	stopped bool
	changed driver.Signal
}

func (o *object) tag() string {
	if o.text == nil {
		return ""
	}
	return strconv.Itoa(o.swaps)
}

// swap is Store.Swap at the service.
func (o *object) swap(text []byte, tag string) (string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.tag() != tag {
		o.moved++
		return "", ErrMoved
	}
	o.text = text
	o.swaps++
	o.changed.Fire()
	return o.tag(), nil
}

// counts returns how many swaps were done, and how many were refused.
func (o *object) counts() (done, moved int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.swaps, o.moved
}

// look returns the document.
func (o *object) look() *document {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.document()
}

func (o *object) document() *document {
	d, err := decode(o.text)
	if err != nil || d == nil {
		return (*document)(nil).next(1, time.Now())
	}
	return d
}

// edit changes the document as an operator does.
func (o *object) edit(change func(d *document) error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	d := o.document().next(driver.NewNonce(), time.Now())
	err := change(d)
	o.text, _ = d.encode()
	o.swaps++
	o.changed.Fire()
	return err
}

// A process is a Store: one process's link to the object, with faults.
type process struct {
	*object
	trip     time.Duration // a request takes this long, or up to twice as long
	mu       sync.Mutex
	broken   error // what every request gets; nil: they pass
	rejected int
	slow     time.Duration
	faults   []fault
	requests chan struct{} // closed when requests pass; nil: they do
	notices  chan struct{}
	backend  *Backend
	sessions []*session // open ones
}

// A fault befalls the next swap of a commit that has an op of this kind.
type fault struct {
	kind backend.OpKind
	do   func(p *process, ctx context.Context, swap func() (string, error)) (string, error)
}

type opsKey struct{}

var errCut = errors.New("the link is cut")

// passes blocks while requests are held, and returns the error that they get.
func (p *process) passes(ctx context.Context) error {
	p.mu.Lock()
	held := p.requests
	p.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-ctx.Done(): // it arrives all the same
			<-held
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.object.mu.Lock()
	defer p.object.mu.Unlock()
	switch {
	case p.object.stopped:
		return errCut
	case p.broken != nil:
		p.rejected++
		return p.broken
	}
	return nil
}

// asks makes a request, which arrives even if ctx ends.
func asks[T any](ctx context.Context, p *process, do func() (T, error)) (T, error) {
	type answer struct {
		v   T
		err error
	}
	var none T
	select {
	case <-time.After(p.trip + rand.N(p.trip)):
	case <-ctx.Done():
		return none, ctx.Err()
	}
	came := make(chan answer, 1)
	go func() {
		var a answer
		if a.err = p.passes(ctx); a.err == nil {
			a.v, a.err = do()
		}
		p.mu.Lock()
		slow := p.slow + 1 // with 0, the race detector of Go 1.26.7 crashes in a bubble
		p.mu.Unlock()
		select {
		case <-time.After(slow):
		case <-ctx.Done():
		}
		came <- a
	}()
	select {
	case a := <-came:
		return a.v, a.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

type reading struct {
	text []byte
	tag  string
}

func (p *process) Read(ctx context.Context) ([]byte, string, error) {
	r, err := asks(ctx, p, func() (reading, error) {
		p.object.mu.Lock()
		defer p.object.mu.Unlock()
		return reading{p.text, p.tag()}, nil
	})
	return r.text, r.tag, err
}

func (p *process) Swap(ctx context.Context, text []byte, tag string) (string, error) {
	ops, _ := ctx.Value(opsKey{}).([]backend.Op)
	p.mu.Lock()
	i := slices.IndexFunc(p.faults, func(f fault) bool {
		return slices.ContainsFunc(ops, func(op backend.Op) bool { return op.Kind == f.kind })
	})
	var f fault
	if i >= 0 {
		f = p.faults[i]
		p.faults = slices.Delete(p.faults, i, i+1)
	}
	p.mu.Unlock()
	return asks(ctx, p, func() (string, error) {
		if f.do != nil {
			return f.do(p, ctx, func() (string, error) { return p.object.swap(text, tag) })
		}
		return p.object.swap(text, tag)
	})
}

// arm arms a fault.
func (p *process) arm(kind backend.OpKind, do func(p *process, ctx context.Context, swap func() (string, error)) (string, error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, fault{kind, do})
}

// loseReply arms a fault: the next swap that is done gets no reply, and then is called.
func (p *process) loseReply(kind backend.OpKind, then func()) {
	p.arm(kind, func(p *process, _ context.Context, swap func() (string, error)) (string, error) {
		if _, err := swap(); err != nil {
			p.loseReply(kind, then)
			return "", err
		}
		then()
		return "", errCut
	})
}

// breaks makes all requests fail, until mend is called. It returns how many did.
func (p *process) breaks(err error) (mend func() int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken, p.rejected = err, 0
	p.object.mu.Lock()
	defer p.object.mu.Unlock()
	p.changed.Fire() // a wait for a notice ends with the link
	return p.mend
}

func (p *process) mend() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken = nil
	return p.rejected
}

// hold closes a gate until release is called.
func (p *process) hold(gate *chan struct{}) (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	closed := make(chan struct{})
	*gate = closed
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		*gate = nil
		close(closed)
	}
}

// A notifying process also hears of changes.
type notifying struct{ *process }

func (p notifying) Notify(ctx context.Context, changed func([]byte, string)) {
	for {
		p.object.mu.Lock()
		text, tag, next := p.text, p.tag(), p.changed.Next()
		p.object.mu.Unlock()
		p.mu.Lock()
		held, broken := p.notices, p.broken
		p.mu.Unlock()
		if held != nil {
			select {
			case <-held:
				continue
			case <-ctx.Done():
				return
			}
		}
		if broken == nil {
			changed(text, tag)
		} else {
			changed(nil, "")
		}
		select {
		case <-next:
		case <-ctx.Done():
			return
		}
	}
}

const maxBytes = 1 << 20

// newProcess starts a process.
func newProcess(o *object, notified bool) *process {
	p := &process{object: o, trip: time.Millisecond}
	var store Store = p
	if notified {
		store = notifying{p}
	}
	b, err := New(Config{Name: "register", Store: store, MaxBytes: maxBytes, Poll: 100 * time.Millisecond})
	if err != nil {
		panic(err)
	}
	p.backend = b
	return p
}

// around lets the faults know the ops of a commit, and notes the sessions.
func (p *process) around() backend.Backend {
	return backend.Around(p.backend, func(s *backend.Session) backend.Layer {
		p.mu.Lock()
		p.sessions = append(p.sessions, driver.Of[*session](s))
		p.mu.Unlock()
		return backend.Layer{Call: func(ctx context.Context, c *backend.Call, next func(context.Context) error) error {
			switch c.Kind {
			case backend.CallCommit:
				ctx = context.WithValue(ctx, opsKey{}, c.Ops)
			case backend.CallClose:
				p.mu.Lock()
				p.sessions = slices.DeleteFunc(p.sessions, func(o *session) bool { return o.ID() == s.ID() })
				p.mu.Unlock()
			}
			return next(ctx)
		}}
	})
}

func (p *process) client() *conformance.Client {
	return &conformance.Client{
		Backend: p.around(),
		Suspend: func() { p.breaks(errCut) },
		Resume:  func() { p.mend() },
		Expire: func() {
			_ = p.edit(func(d *document) error {
				for _, s := range p.sessions {
					d.drop(s.ID())
				}
				return nil
			})
		},
		Kill: func() (wills []backend.Will) {
			p.breaks(errCut)
			for _, s := range p.sessions {
				wills = append(wills, backend.Will{Service: "register", Session: s.ID(), TTL: s.TTL()})
				s.Lose(errors.New("killed"))
			}
			return wills
		},
		LoseReply: func(kind backend.OpKind) { p.loseReply(kind, func() {}) },
		CutReply:  func(kind backend.OpKind) { p.loseReply(kind, func() { p.breaks(errCut) }) },
		LoseRequest: func(kind backend.OpKind) {
			p.arm(kind, func(*process, context.Context, func() (string, error)) (string, error) { return "", errCut })
		},
		DelayRequest: func(kind backend.OpKind, by time.Duration) (sent func() bool) {
			met := false
			p.arm(kind, func(p *process, _ context.Context, swap func() (string, error)) (string, error) {
				p.mu.Lock()
				met = true
				p.mu.Unlock()
				time.Sleep(by)
				return swap()
			})
			return func() bool { p.mu.Lock(); defer p.mu.Unlock(); return met }
		},
		SlowReplies: func(d time.Duration) { p.mu.Lock(); defer p.mu.Unlock(); p.slow = d },
		HoldRequests: func() (release func()) {
			return p.hold(&p.requests)
		},
		Throttle: func() (release func() int) {
			return p.breaks(fmt.Errorf("%w: too many requests", backend.ErrUnavailable))
		},
	}
}

// service returns a function that makes a service for the suites.
func service(ttl time.Duration, notified bool) func(testing.TB) *conformance.Service {
	return func(testing.TB) *conformance.Service {
		o := &object{}
		name := "register, polling"
		if notified {
			name = "register"
		}
		halt := func(stopped bool) func() error {
			return func() error { o.mu.Lock(); defer o.mu.Unlock(); o.stopped = stopped; return nil }
		}
		return &conformance.Service{
			Name: name, Root: "/conformance", TTL: ttl, Virtual: true, Slow: 300 * time.Millisecond,
			Client: func(testing.TB) *conformance.Client { return newProcess(o, notified).client() },
			Delete: func(key string) error {
				return o.edit(func(d *document) error {
					maps.DeleteFunc(d.Entries, func(k string, _ entry) bool { return k == key || strings.HasPrefix(k, key+"/") })
					return nil
				})
			},
			Put: func(key string, value []byte) error {
				return o.edit(func(d *document) error {
					_, err := d.commit("", []backend.Op{backend.CompareAndSet(key, value, d.at(key).Version)})
					return err
				})
			},
			Stop: halt(true), Start: halt(false),
			Stored: func() (keys, bytes int, err error) {
				o.mu.Lock()
				defer o.mu.Unlock()
				d := o.document()
				for key, e := range d.Entries {
					bytes += len(key) + len(e.Value)
				}
				sessions, _ := json.Marshal(len(d.Sessions))
				return len(d.Entries) + len(d.Sessions), bytes + len(sessions), nil
			},
			Why: map[string]string{
				"StopMember": "the service is one", "PauseMember": "the service is one", "CutOffMember": "the service is one",
				"MaxOps": "the object's size is limited", "MaxBytes": "the object's size is limited", "UseUp": "numbers do not end", "Watches": "nothing is kept for a wait",
				"HoldWakeups": "heartbeats bring changes, too", "Deny": "heartbeats need the same rights as all writes",
			},
		}
	}
}
