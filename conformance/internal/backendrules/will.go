package backendrules

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance/kit"
)

var willRules = []rule{
	{
		Name: "will/executed",
		Text: "When another process executes a session's will its entries are gone at once, as with Close, and its own process hears of it: calls return ErrSessionLost.",
		Run:  willExecuted,
	}, {
		Name: "will/out-of-touch",
		Text: "The will of a session that is out of touch is executed at once, too, and the session does not come back.",
		Need: []string{"Suspend"},
		Run:  willOutOfTouch,
	}, {
		Name: "will/one",
		Text: "A will ends its session and no other: not the other ones of its process, and no later one, however often it is executed.",
		Run:  willOne,
	}, {
		Name: "will/again",
		Text: "Executed by several at once, and again, a will is as executed once: each is told once the entries are gone, of a closed session, too.",
		Run:  willAgain,
	}, {
		Name: "will/wrong",
		Text: "A will with another session or another secret in it ends nothing; with another secret it is an error.",
		Run:  willWrong,
	}, {
		Name: "will/down",
		Text: "While no server answers, Execute tries on: until its context ends, or until it is done, which is soon when they are back.",
		Need: []string{"Stop"},
		Run:  willDown,
	},
}

// will returns the session's will as it has come through its text. Where there is none the rule is not
// applicable.
func (s sess) will() (w backend.Will, ok bool) {
	w, err := s.Will()
	if errors.Is(err, errors.ErrUnsupported) {
		s.r.NotApplicable = "the backend does not say how its sessions are ended from outside"
		return w, false
	}
	s.r.Must("will", err)
	text, err := json.Marshal(w)
	s.r.Must("write the will", err)
	w = backend.Will{}
	s.r.Must("read the will", json.Unmarshal(text, &w))
	if w.Session != s.ID() || w.TTL != s.TTL() {
		s.r.Failf("the will is of session %q with a timeout of %v, and the session is %q with %v", w.Session, w.TTL, s.ID(), s.TTL())
	}
	return w, true
}

// execute has a process execute a will.
func (r *run) execute(c *kit.Client, w backend.Will) *task[struct{}] {
	return start(r, "execute the "+w.String(), func(ctx context.Context) (struct{}, error) {
		return struct{}{}, backend.Execute(ctx, c.Backend, w)
	})
}

// gone checks that there is nothing under key now.
func (s sess) gone(key string) {
	s.r.Must("catch up", s.CatchUp(s.r.ctx, key))
	if e := s.peek(key); e.Exists() {
		s.r.Failf("the will is executed, and there is %+v", e)
	}
}

func willExecuted(r *run) {
	s, other := r.session(), r.session()
	w, ok := s.will()
	if !ok {
		return
	}
	dir := s.dir("d")
	e, f := s.enqueue(dir, "x"), s.create(dir+"/seat", "x")
	other.sees(e)
	other.sees(f)
	gone := []*task[[]backend.Entry]{other.await(e), other.await(f)}
	own := s.await(e)
	own.blocked("nothing happened")
	// What this one waits for does not change when the session's entries go.
	aside := s.await(backend.Entry{Key: r.key("never")})
	aside.blocked("nothing happened")
	began := time.Now()
	r.execute(r.client(), w).value()
	other.gone(e.Key)
	other.gone(f.Key)
	for _, g := range gone {
		if got := one(g); got.Exists() {
			r.Failf("another session sees %+v", got)
		}
	}
	s.soon("the will was executed", began)
	// It may be told first that its entry is gone.
	if got, err := own.result(); err == nil && (len(got) != 1 || got[0].Exists()) {
		r.Failf("await of an entry of the session's own returned %+v", got)
	} else if err != nil {
		r.Refused("await of an entry of the session's own", err, backend.ErrSessionLost)
	}
	_, err := aside.result()
	r.Refused("blocked await of another entry", err, backend.ErrSessionLost)
	r.T.Logf("the session's process heard of it %v after the will was executed", time.Since(began))
	s.over(e)
	r.Must("close", s.Close(r.ctx))
}

func willOutOfTouch(r *run) {
	c := r.client()
	s, other := r.open(c), r.session()
	w, ok := s.will()
	if !ok {
		return
	}
	e := s.enqueue(s.dir("d"), "x")
	other.sees(e)
	c.Suspend()
	began := time.Now()
	r.execute(r.client(), w).value()
	other.gone(e.Key)
	s.soon("the will was executed", began)
	c.Resume()
	r.Until("the session is lost", func() bool { return s.State() == backend.Lost })
	s.over(e)
	next := r.open(c)
	if again, _ := next.will(); again.Session == w.Session {
		r.Failf("the will of the next session is of session %q, too", w.Session)
	}
}

func willOne(r *run) {
	c, by := r.client(), r.client()
	first, beside, other := r.brief(c), r.brief(c), r.session()
	w, ok := first.will()
	if !ok {
		return
	}
	dir := other.dir("d")
	shared := first.ID() == beside.ID()
	e, f := first.enqueue(dir, "x"), beside.enqueue(dir, "y")
	other.lists(dir, e, f)
	r.execute(by, w).value()
	other.gone(e.Key)
	if shared {
		r.Until("the session beside it, which is the same one, is lost", func() bool { return beside.State() == backend.Lost })
		beside = r.brief(c)
		f = beside.enqueue(dir, "y")
	}
	r.Until("the session is lost", func() bool { return first.State() == backend.Lost })
	later := r.brief(c)
	g := later.enqueue(dir, "z")
	for _, by := range []*kit.Client{by, c} {
		r.execute(by, w).value()
	}
	// Not only for now: both are renewed.
	time.Sleep(2 * r.Service.TTL)
	beside.lives()
	later.lives()
	other.lists(dir, f, g)
}

func willAgain(r *run) {
	c := r.client()
	s, other := r.open(c), r.session()
	w, ok := s.will()
	if !ok {
		return
	}
	e := s.enqueue(s.dir("d"), "x")
	other.sees(e)
	var executing []*task[struct{}]
	for range 4 {
		by := r.client()
		executing = append(executing, start(r, "execute a will beside others", func(ctx context.Context) (none struct{}, err error) {
			if err := backend.Execute(ctx, by.Backend, w); err != nil {
				return none, err
			}
			if err := other.CatchUp(ctx, e.Key); err != nil {
				return none, err
			}
			if _, err := other.Get(ctx, e.Key); !errors.Is(err, backend.ErrNoEntry) {
				return none, errors.New("the will is executed, and the entry is there")
			}
			return none, nil
		}))
	}
	for _, t := range executing {
		t.value()
	}
	r.execute(r.client(), w).value()
	closed := r.session()
	w, _ = closed.will()
	r.Must("close", closed.Close(r.ctx))
	r.execute(r.client(), w).value()
}

func willWrong(r *run) {
	s, other := r.brief(r.client()), r.brief(r.client())
	w, ok := s.will()
	if !ok {
		return
	}
	of, _ := other.will()
	dir := s.dir("d")
	e, f := s.enqueue(dir, "x"), other.enqueue(dir, "y")
	with := func(session string, secret []byte) backend.Will {
		return backend.Will{Service: w.Service, Session: session, TTL: w.TTL, Secret: secret}
	}
	secrets := [][]byte{append([]byte("x"), w.Secret...), append(w.Secret[:len(w.Secret):len(w.Secret)], 0)}
	if len(w.Secret) > 0 {
		changed := append([]byte(nil), w.Secret...)
		changed[len(changed)-1]++
		secrets = append(secrets, nil, w.Secret[:len(w.Secret)-1], changed, of.Secret)
	}
	c := r.client()
	execute := func(w backend.Will) error {
		ctx, cancel := context.WithTimeout(r.ctx, r.Service.TTL) // it may try on
		defer cancel()
		return backend.Execute(ctx, c.Backend, w)
	}
	for _, secret := range secrets {
		if err := execute(with(w.Session, secret)); err == nil {
			r.Failf("with %q in the place of the secret %q the will was executed", secret, w.Secret)
		}
	}
	for _, session := range []string{"", "x", "-1", "0", "../" + w.Session, w.Session + "/", w.Session + "x", "x" + w.Session, " " + w.Session} {
		_ = execute(with(session, w.Secret)) // it is of no session that was ever there: whether it is over is a matter of taste
	}
	time.Sleep(2 * r.Service.TTL)
	s.lives()
	other.lives()
	s.lists(dir, e, f)
}

func willDown(r *run) {
	s := r.session()
	w, ok := s.will()
	if !ok {
		return
	}
	e := s.enqueue(s.dir("d"), "x")
	by, reader := r.client(), r.client()
	r.Must("stop the service", r.Service.Stop())
	ctx, cancel := context.WithTimeout(r.ctx, r.Service.TTL/20)
	defer cancel()
	r.Refused("execute while no server answers", backend.Execute(ctx, by.Backend, w), context.DeadlineExceeded)
	executing := r.execute(by, w)
	executing.blocked("the service was down")
	r.Must("start the service", r.Service.Start())
	back := time.Now()
	executing.value()
	s.soon("the service was back", back)
	r.opens(reader).gone(e.Key)
	r.Until("the session is lost", func() bool { return s.State() == backend.Lost })
}
