package backendrules

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance/internal/harness"
	"github.com/elector-go/elector/conformance/kit"
)

// A trio is three sessions in processes of their own, each connected to another member of an ensemble.
// The first one's member is taken away.
type trio struct {
	*run
	member int // of the first
	dir    string

	first, second, writer sess

	process *kit.Client // of the first
	free    func()      // lets the first connect to other members, too
	other   *kit.Client // the writer's
}

func (r *run) trio(member int) *trio {
	at := func(member int) (*kit.Client, func()) { return r.Service.ClientAt(r.T, member%r.Service.Members) }
	x := &trio{run: r, member: member}
	x.process, x.free = at(member)
	x.first = r.opens(x.process)
	process, _ := at(member + 1)
	x.second = r.opens(process)
	x.other, _ = at(member + 2)
	x.writer = r.opens(x.other)
	x.dir = x.writer.dir(fmt.Sprintf("d%d", member))
	return x
}

// opens opens a session at members that may still be electing, since one of them was taken away. It
// replaces a session that was granted so late that half of its window has passed.
func (r *run) opens(c *kit.Client) (s sess) { return r.opensFor(c, r.Service.TTL) }

func (r *run) opensFor(c *kit.Client, ttl time.Duration) (s sess) {
	r.Until("a session is opened", func() bool {
		own, err := c.Backend.Open(r.ctx, backend.OpenOptions{TTL: ttl})
		if err != nil {
			r.Refused("open", err, backend.ErrUnavailable)
			return false
		}
		s = sess{own, r}
		r.sessions = append(r.sessions, s)
		return time.Until(s.Deadline()) > ttl/2
	})
	return s
}

// waitsOf makes a session wait for a new entry of the writer.
func (x *trio) waitsOf(s sess) (e backend.Entry, waiting *task[[]backend.Entry]) {
	e = x.writer.enqueue(x.dir, "x")
	s.sees(e)
	waiting = s.waits(e)
	return e, waiting
}

// beats waits for a heartbeat of the session. Right after it the time until the next is longest.
func (s sess) beats() {
	before := s.Deadline()
	s.r.Until("the session has another heartbeat", func() bool { return s.Deadline().After(before) })
}

// without takes the first one's member away, and brings it back after meanwhile.
func (x *trio) without(what string, away, back func(member int) error, meanwhile func()) {
	x.Must(what, away(x.member))
	bring := sync.OnceValue(func() error { return back(x.member) })
	defer func() { _ = bring() }() // if the rule fails before
	meanwhile()
	x.Must("bring the member back", bring())
}

// others does something in the writer's session, or in a new one if that is lost: until another member
// leads, its window may pass.
func (x *trio) others(do func(s sess) error) error {
	for {
		err := do(x.writer)
		if !errors.Is(err, backend.ErrSessionLost) {
			return err
		}
		x.writer.ranOut()
		x.writer = x.opens(x.other)
	}
}

// delete deletes one of the writer's entries.
func (x *trio) delete(e backend.Entry) {
	err := x.others(func(s sess) error {
		_, err := s.Commit(x.ctx, nil, backend.Delete(e))
		return err
	})
	if !errors.Is(err, backend.ErrNoEntry) { // it also goes with the session
		x.Must("delete", err)
	}
}

// ranOut checks that a lost session was lost because its window had passed.
func (s sess) ranOut() {
	left := time.Until(s.Deadline())
	s.r.FailIf(s.State() == backend.Lost && left > 0, "session %s was lost with %v of its window left", s.ID(), left)
}

// hears checks that a change is noticed in time, counted from when the session was last out of touch. A
// session may be lost if its window has passed.
func hears[T any](s sess, waiting *task[T]) {
	r := s.r
	live := time.Now()
	for {
		select {
		case <-waiting.done:
			if waiting.err != nil && !(errors.Is(waiting.err, backend.ErrSessionLost) && time.Now().After(s.Deadline())) {
				r.Must(waiting.what, waiting.err)
			}
			return
		case <-r.ctx.Done():
			r.Failf("%s does not return", waiting.what)
		case <-time.After(r.Service.TTL / 100):
		}
		if s.State() != backend.Live {
			live = time.Now()
		}
		late := time.Since(live)
		r.FailIf(late > 2*r.Service.TTL, "%s has not returned %v after the change, though the session has been live all the time", waiting.what, late)
	}
}

// serviceMemberKilled kills each member in turn, the leader included. One session began at that member, and
// may go to others. Two stay at the others.
func serviceMemberKilled(r *run) {
	for member := range r.Service.Members {
		at := func(member int) (s sess, free func()) {
			c, free := r.Service.ClientAt(r.T, member%r.Service.Members)
			return r.opensFor(c, r.Lasting()), free
		}
		first, free := at(member)
		second, _ := at(member + 1)
		writer, _ := at(member + 2)
		dir := writer.dir(fmt.Sprintf("killed%d", member))
		flag := writer.put(dir+"/flag", "0", 0)
		var waiting []*task[[]backend.Entry]
		for _, s := range []sess{first, second} {
			s.sees(flag)
			waiting = append(waiting, s.waits(s.enqueue(dir, "x"), flag))
		}
		free()
		r.Must("kill a member", r.Service.StopMember(member))
		bring := sync.OnceValue(func() error { return r.Service.StartMember(member) })
		defer func() { _ = bring() }() // if the rule fails before
		for _, w := range waiting {
			w.blocked("nothing has changed")
		}
		changed := writer.put(flag.Key, "1", flag.Version)
		for _, w := range waiting {
			now := w.value()
			r.FailIf(!now[0].Exists() || !now[1].Same(changed), "%s returned %+v, want %+v as the second", w.what, now, changed)
		}
		for _, s := range []sess{first, second, writer} {
			s.enqueue(dir, "y")
		}
		r.Must("bring the member back", bring())
		for _, s := range []sess{first, second, writer} {
			r.Until("the session is live", func() bool {
				r.FailIf(s.State() == backend.Lost, "session %s is lost", s.ID())
				return s.State() == backend.Live
			})
		}
	}
}

func serviceNoQuorum(r *run) {
	c, free := r.Service.ClientAt(r.T, 0)
	s := r.opens(c)
	dir := s.dir("d")
	own := s.enqueue(dir, "x")
	waiting := s.waits(own)
	var back []func() error
	defer func() { // if the rule fails before
		for _, start := range back {
			_ = start()
		}
	}()
	for member := 1; member < r.Service.Members; member++ {
		r.Must("kill a member", r.Service.StopMember(member))
		back = append(back, func() error { return r.Service.StartMember(member) })
	}
	alone := time.Now()
	read, write := s.getting("get without a quorum", own.Key), s.committing("enqueue without a quorum", backend.Enqueue(dir, nil))
	s.ends()
	s.ranOut()
	r.FailIf(s.Deadline().After(alone.Add(s.TTL())), "the window was open until %v after the quorum had gone, and the timeout is %v", s.Deadline().Sub(alone), s.TTL())
	waiting.fails("await without a quorum", backend.ErrSessionLost)
	if e, err := read.result(); err == nil && e.Same(own) { // the member had not noticed yet
		read = s.getting(read.what, own.Key)
	}
	read.fails(read.what, backend.ErrSessionLost)
	write.fails(write.what, backend.ErrSessionLost)
	_, err := c.Backend.Open(r.ctx, backend.OpenOptions{TTL: r.Service.TTL})
	r.Refused("open without a quorum", err, backend.ErrUnavailable)
	for ; len(back) > 0; back = back[1:] {
		r.Must("bring a member back", back[0]())
	}
	free()
	r.opens(c).lists(dir)
}

// serviceMemberFrozen freezes each member in turn, the leader included. The sessions of one process began at
// that member, and may switch to others; they may share connections. One stays at another member, which may
// have forwarded its wait.
func serviceMemberFrozen(r *run) {
	for member := range r.Service.Members {
		x := r.trio(member)
		began := []sess{x.first, r.opens(x.process), r.opens(x.process)}
		var gone []backend.Entry
		var waiting []*task[[]backend.Entry]
		for _, s := range append(began, x.second) {
			e, waits := x.waitsOf(s)
			gone, waiting = append(gone, e), append(waiting, waits)
		}
		x.free()
		x.first.beats()
		x.second.beats()
		x.without("freeze a member", r.Service.PauseMember, r.Service.ResumeMember, func() {
			for _, e := range gone {
				x.delete(e)
			}
			hears(x.second, waiting[len(began)])
			for i, s := range began {
				hears(s, waiting[i])
			}
		})
	}
}

// serviceMemberCutOff cuts each member off in turn, the leader included. One session stays at that
// member, which answers until it notices; two are at the others.
func serviceMemberCutOff(r *run) {
	for member := range r.Service.Members {
		x := r.trio(member)
		own := x.first.enqueue(x.dir, "own")
		x.second.sees(own)
		noticing := start(r, "await of an entry whose session is cut off", func(ctx context.Context) (time.Time, error) {
			now, err := x.second.Await(ctx, own)
			at := time.Now()
			if err == nil && now[0].Exists() {
				err = fmt.Errorf("it returned %+v", now[0])
			}
			return at, err
		})
		e, waiting := x.waitsOf(x.second)
		x.second.beats()
		writing := start(r, "the commits of a session that is cut off", x.writes)
		var writes []told
		x.without("cut a member off", r.Service.CutOffMember, r.Service.MendMember, func() {
			x.delete(e)
			hears(x.second, waiting)
			gone := x.gone(own)
			hears(x.second, noticing)
			if noticing.err == nil && noticing.v.Before(gone) {
				gone = noticing.v
			}
			// The window never moves again once its end is reached, so a later look shows what it was
			// when the entry was gone.
			spare := gone.Sub(x.first.Deadline())
			if state := x.first.State(); spare < 0 || state == backend.Live {
				r.Failf("another session sees that the entry of the session at member %d is gone while that session is %v, %v before the end of its window", member, state, -spare)
			}
			writes = writing.value()
			done := x.areDone(writes)
			r.T.Logf("member %d: the entry was seen gone %v after the end of the window; %d of %d commits were done", member, spare, done, len(writes))
		})
		// Its client gets another session, and the old one stays lost.
		again := r.opens(x.process)
		again.enqueue(x.dir, "again")
		if state := x.first.State(); state != backend.Lost {
			r.Failf("the lost session at member %d is now %v", member, state)
		}
		x.second.ranOut()
		x.writer.ranOut()
		for _, w := range writes {
			r.FailIf(w.err != nil && !errors.Is(w.err, backend.ErrIndeterminate) && again.peek(w.key).Exists(),
				"a commit reported that nothing was written: %v; but %s exists", w.err, w.key)
		}
	}
}

// told is the result of a commit as its session reported it.
type told struct {
	key   string
	entry backend.Entry // as the commit left it, if err is nil
	err   error
}

// writes writes one entry after the other in the first session until it is lost. It soon gives up a
// commit that is not answered, so that many are pending.
func (x *trio) writes(ctx context.Context) (all []told, err error) {
	for ; ; time.Sleep(x.Service.TTL / 50) {
		w := told{key: fmt.Sprintf("%s/w%d", x.dir, len(all))}
		soon, cancel := context.WithTimeout(ctx, x.Service.TTL/5)
		entries, err := x.first.Commit(soon, nil, backend.CompareAndSet(w.key, nil, 0))
		cancel()
		if w.err = err; err == nil {
			w.entry = entries[0]
		}
		all = append(all, w)
		if errors.Is(err, backend.ErrSessionLost) {
			return all, nil
		}
		if err := ctx.Err(); err != nil {
			return all, err
		}
	}
}

// gone returns when the writer has seen that an entry is gone.
func (x *trio) gone(e backend.Entry) (at time.Time) {
	x.Until(e.Key+" is gone, as its session is cut off", func() bool {
		err := x.others(func(s sess) error {
			_, err := s.Get(x.ctx, e.Key)
			return err
		})
		at = time.Now()
		if !errors.Is(err, backend.ErrNoEntry) {
			x.Must("get "+e.Key, err)
		}
		return err != nil
	})
	return at
}

// areDone checks that the writer sees the commits that were reported to the first as done, and counts
// them. No error may report anything other than the cut. The writer has seen a later change: that the
// first one's entry is gone.
func (x *trio) areDone(all []told) (done int) {
	for _, w := range all {
		switch {
		case w.err == nil:
			var e backend.Entry
			err := x.others(func(s sess) (err error) {
				e, err = s.Get(x.ctx, w.key)
				return err
			})
			x.FailIf(err != nil || !e.Same(w.entry), "a commit was reported as done and returned %+v, but another session sees %+v (%v)", w.entry, e, err)
			done++
		case !harness.IsAny(w.err, backend.ErrIndeterminate, backend.ErrSessionLost, backend.ErrUnavailable, context.DeadlineExceeded):
			x.Failf("commit while the member is cut off: %v", w.err)
		}
	}
	return done
}
