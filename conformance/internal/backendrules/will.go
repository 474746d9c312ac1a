package backendrules

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance/kit"
)

var willRules = []rule{
	promise("will/executed", willed(willExecuted(false)),
		"When another process executes a session's will, the session's entries are gone at once, as with Close. Its own process hears of it: calls return ErrSessionLost."),
	promise("will/out-of-touch", willed(willExecuted(true)),
		"The will of a session that is out of touch is executed at once, too, and the session does not come back.",
		"Suspend"),
	promise("will/one", willed(willOne),
		"A will ends its session, but no other session of the process and no later one. Several processes may execute it at once, and again, also when its session is closed: each Execute returns once the entries are gone."),
	promise("will/wrong", willed(willWrong),
		"Executing a will with another session or another secret ends nothing; with another secret, Execute returns an error."),
	promise("will/down", willed(willDown),
		"While no server answers, Execute keeps trying until its context ends or the will is executed, which is soon after the servers are back.",
		"Stop"),
	promise("will/refused", willed(willRefused),
		"If the service denies Execute, or rejects it for now, Execute does not return nil: it returns ErrDenied or keeps trying, and the session continues. When the service allows it again, it works.",
		"Deny", "Throttle"),
}

// A willing is a session whose will another process executes.
type willing struct {
	*run
	c        *kit.Client // of the session's process
	s, other sess
	will     backend.Will
	dir      string
	e        backend.Entry // of the session
}

// willed tries a rule with the will of a session. If the backend has no wills, the rule
// is not applicable.
func willed(try func(x *willing)) func(*run) {
	return func(r *run) {
		x := &willing{run: r, c: r.client()}
		x.s, x.other = r.open(x.c), r.session()
		if _, err := x.s.Will(); errors.Is(err, errors.ErrUnsupported) {
			r.NotApplicable = "the backend does not say how its sessions are ended from outside"
			return
		}
		x.will = x.s.will()
		x.dir = x.s.dir("d")
		x.e = x.s.enqueue(x.dir, "x")
		x.other.sees(x.e)
		try(x)
	}
}

// will returns the session's will after a round trip through its text.
func (s sess) will() (w backend.Will) {
	told, err := s.Will()
	s.r.Must("will", err)
	text, err := json.Marshal(told)
	s.r.Must("write the will", err)
	s.r.Must("read the will", json.Unmarshal(text, &w))
	s.r.FailIf(w.Session != s.ID() || w.TTL != s.TTL(),
		"the will names session %q with a timeout of %v, but the session is %q with %v", w.Session, w.TTL, s.ID(), s.TTL())
	return w
}

// execute makes a process execute a will.
func (r *run) execute(c *kit.Client, w backend.Will) *task[struct{}] {
	return r.do("execute the "+w.String(), func(ctx context.Context) error { return backend.Execute(ctx, c.Backend, w) })
}

// gone checks that there is no entry under key now.
func (s sess) gone(key string) {
	s.r.Must("catch up", s.CatchUp(s.r.ctx, key))
	e := s.peek(key)
	s.r.FailIf(e.Exists(), "the will is executed, but there is still %+v", e)
}

func willExecuted(outOfTouch bool) func(x *willing) {
	return func(x *willing) {
		will := x.will
		if outOfTouch { // uses the will from before the link was cut, long ago
			x.linkAgain(x.c, x.s)
			time.Sleep(time.Duration(x.times(0, 2)) * x.s.TTL())
		} else { // asks for the will again
			will = x.s.will()
		}
		end := x.s.ending()
		if outOfTouch {
			x.c.Suspend()
		}
		x.execute(x.client(), will).value()
		for _, e := range end.entries {
			x.other.gone(e.Key)
		}
		end.left()
		x.s.soon("the will was executed", end.began)
		if outOfTouch {
			x.c.Resume()
		}
		// It may hear first that its entry is gone.
		if _, err := end.own.result(); err == nil {
			isGone(end.own)
			end.own = end.aside
		}
		x.s.ends()
		end.ended()
		x.T.Logf("the session's process learned of it %v after the will was executed", time.Since(end.began))
		again := x.open(x.c).will()
		x.FailIf(again.Session == x.will.Session, "the will of the next session names session %q, too", x.will.Session)
		x.s.close()
	}
}

func willOne(x *willing) {
	beside := x.open(x.c)
	shared := x.s.ID() == beside.ID()
	f := beside.enqueue(x.dir, "y")
	x.other.lists(x.dir, x.e, f)
	var executing []*task[struct{}]
	for range 4 {
		by := x.client()
		executing = append(executing, x.do("execute a will at the same time as others", func(ctx context.Context) error {
			if err := errors.Join(backend.Execute(ctx, by.Backend, x.will), x.other.CatchUp(ctx, x.e.Key)); err != nil {
				return err
			}
			if _, err := x.other.Get(ctx, x.e.Key); !errors.Is(err, backend.ErrNoEntry) {
				return errors.New("the will is executed, but the entry still exists")
			}
			return nil
		}))
	}
	for _, t := range executing {
		t.value()
	}
	if shared {
		beside.ends() // it is the same session
		beside = x.open(x.c)
		f = beside.enqueue(x.dir, "y")
	}
	x.s.ends()
	later := x.open(x.c)
	g := later.enqueue(x.dir, "z")
	for _, by := range []*kit.Client{x.client(), x.c} {
		x.execute(by, x.will).value()
	}
	closed := x.session()
	w := closed.will()
	closed.close()
	x.execute(x.client(), w).value()
	// Not only for the moment: both are renewed.
	time.Sleep(max(2*x.Service.TTL, x.s.TTL()*5/4))
	beside.lives()
	later.lives()
	x.other.lists(x.dir, f, g)
}

func willWrong(x *willing) {
	w, other := x.will, x.open(x.client())
	f := other.enqueue(x.dir, "y")
	with := func(session string, secret []byte) backend.Will {
		return backend.Will{Service: w.Service, Session: session, TTL: w.TTL, Secret: secret}
	}
	secrets := [][]byte{append([]byte("x"), w.Secret...), append(slices.Clip(w.Secret), 0)}
	if len(w.Secret) > 0 {
		changed := bytes.Clone(w.Secret)
		changed[len(changed)-1]++
		secrets = append(secrets, nil, w.Secret[:len(w.Secret)-1], changed, other.will().Secret)
	}
	c := x.client()
	execute := func(w backend.Will) error {
		ctx, cancel := context.WithTimeout(x.ctx, x.Service.TTL) // it may retry
		defer cancel()
		return backend.Execute(ctx, c.Backend, w)
	}
	for _, secret := range secrets {
		if err := execute(with(w.Session, secret)); err == nil {
			x.Failf("with %q in place of the secret %q, the will was executed", secret, w.Secret)
		}
	}
	for _, session := range []string{"", "x", "-1", "0", "../" + w.Session, w.Session + "/", w.Session + "x", "x" + w.Session, " " + w.Session} {
		_ = execute(with(session, w.Secret)) // no such session ever existed: nil and an error are both right
	}
	time.Sleep(max(2*x.Service.TTL, x.s.TTL()*5/4))
	x.s.lives()
	other.lives()
	x.s.lists(x.dir, x.e, f)
}

func willDown(x *willing) {
	by, reader := x.client(), x.client()
	x.Must("stop the service", x.Service.Stop())
	ctx, cancel := context.WithTimeout(x.ctx, x.Service.TTL/20)
	defer cancel()
	x.Refused("execute while no server answers", backend.Execute(ctx, by.Backend, x.will), context.DeadlineExceeded)
	executing := x.execute(by, x.will)
	executing.blocked("the service was down")
	x.Must("start the service", x.Service.Start())
	back := time.Now()
	executing.value()
	x.s.soon("the service was back", back)
	x.opens(reader).gone(x.e.Key)
	x.s.ends()
}

// willRefused also accepts services that let anybody end a session: then it is over.
func willRefused(x *willing) {
	by := x.client()
	release := by.Deny()
	_, err := x.execute(by, x.will).result()
	release()
	if err != nil {
		x.Refused("execute while denied", err, backend.ErrDenied)
		x.s.lives()
		x.other.sees(x.e)
		x.execute(by, x.will).value()
	}
	x.other.gone(x.e.Key)
	x.s.ends()

	s := x.open(x.c)
	e := s.enqueue(x.dir, "y")
	x.other.sees(e)
	free := by.Throttle()
	executing := x.execute(by, s.will())
	x.Settle()
	free()
	executing.value()
	x.other.gone(e.Key)
	s.ends()
}
