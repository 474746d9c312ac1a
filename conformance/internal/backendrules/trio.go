package backendrules

import (
	"errors"
	"fmt"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance/kit"
)

// A trio is three sessions in processes of their own, each connected to another member of an
// ensemble. The first one's member is taken away.
type trio struct {
	*run
	member int // of the first
	dir    string

	first, second, writer sess

	process *kit.Client // of the first
	free    func()      // has the first go to other members, too
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

// opens opens a session at members that may still elect, since one of them was taken away. A
// session that was granted so late that half of its window has passed is left for another.
func (r *run) opens(c *kit.Client) (s sess) {
	r.Until("a session is opened", func() bool {
		own, err := c.Backend.Open(r.ctx, backend.OpenOptions{TTL: r.Service.TTL})
		if err != nil {
			r.Refused("open", err, backend.ErrUnavailable)
			return false
		}
		s = sess{own, r}
		r.sessions = append(r.sessions, s)
		return time.Until(s.Deadline()) > r.Service.TTL/2
	})
	return s
}

// waitsOf has a session wait for a new entry of the writer's.
func (x *trio) waitsOf(s sess) (e backend.Entry, waiting *task[[]backend.Entry]) {
	e = x.writer.enqueue(x.dir, "x")
	s.sees(e)
	waiting = s.waits(e)
	return e, waiting
}

// beats waits for a heartbeat of the session. Right after it there is the longest time until
// the next.
func (s sess) beats() {
	before := s.Deadline()
	s.r.Until("there is a heartbeat", func() bool { return s.Deadline().After(before) })
}

// without takes the first one's member away, and brings it back after meanwhile.
func (x *trio) without(what string, away, back func(member int) error, meanwhile func()) {
	x.Must(what, away(x.member))
	is := false
	defer func() {
		if !is {
			_ = back(x.member) // the rule is broken already
		}
	}()
	meanwhile()
	is = true
	x.Must("bring the member back", back(x.member))
}

// others has the writer do something, in another session if its own is lost: until another
// member leads, its window may pass.
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

// delete has the writer delete one of its entries.
func (x *trio) delete(e backend.Entry) {
	err := x.others(func(s sess) error {
		_, err := s.Commit(x.ctx, nil, backend.Delete(e))
		return err
	})
	if !errors.Is(err, backend.ErrNoEntry) { // it goes with the session, too
		x.Must("delete", err)
	}
}

// ranOut checks that a session that is lost was so by its window, and not before.
func (s sess) ranOut() {
	if left := time.Until(s.Deadline()); s.State() == backend.Lost && left > 0 {
		s.r.Failf("session %s was lost with %v of its window left", s.ID(), left)
	}
}

// hears checks that what was waited for is noticed in time, counted from when the session
// was out of touch last. A session may be lost if its window has passed.
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
		if late := time.Since(live); late > 2*r.Service.TTL {
			r.Failf("%s has not returned %v after the change, and the session has been live all the time", waiting.what, late)
		}
	}
}
