package conformance

import (
	"errors"
	"fmt"
	"time"

	"github.com/elector-go/elector/backend"
)

// serviceMemberFrozen freezes each member in turn: the one that leads is among them. One
// session began with that member, and may go on with others; one stays with another, which
// may have passed on what it waits for.
func serviceMemberFrozen(r *run) {
	for frozen := range r.svc.Members {
		at := func(member int) (s sess, free func()) {
			c, free := r.svc.ClientAt(r.t, member%r.svc.Members)
			// The members may still elect, since the one before was frozen.
			r.until("a session is opened", func() bool {
				own, err := c.Backend.Open(r.ctx, backend.OpenOptions{TTL: r.svc.TTL})
				if err == nil {
					s = sess{own, r}
					r.sessions = append(r.sessions, s)
				} else if !errors.Is(err, backend.ErrUnavailable) {
					r.failf("open: %v", err)
				}
				return err == nil
			})
			return s, free
		}
		first, free := at(frozen)
		second, _ := at(frozen + 1)
		writer, _ := at(frozen + 2)
		dir := writer.dir(fmt.Sprintf("d%d", frozen))
		wait := func(s sess) (e backend.Entry, waiting *task[[]backend.Entry]) {
			e = writer.enqueue(dir, "x")
			s.sees(e)
			waiting = s.await(e)
			waiting.blocked("nothing happened")
			return e, waiting
		}
		e, waiting := wait(first)
		f, alsoWaiting := wait(second)
		free()
		// Right after a heartbeat there is the longest time until the next.
		beat := second.Deadline()
		r.until("there is a heartbeat", func() bool { return second.Deadline().After(beat) })
		r.nothing("freeze a member", r.svc.PauseMember(frozen))
		resumed := false
		defer func() {
			if !resumed {
				_ = r.svc.ResumeMember(frozen) // the rule is broken already
			}
		}()
		for _, gone := range []backend.Entry{e, f} {
			r.until("what is waited for is deleted", func() bool {
				_, err := writer.Session.Commit(r.ctx, nil, backend.Delete(gone))
				if errors.Is(err, backend.ErrSessionLost) {
					writer, _ = at(frozen + 2) // until another member led its window has passed
					return false
				}
				if !errors.Is(err, backend.ErrNoEntry) { // it goes with the session, too
					r.nothing("delete", err)
				}
				return true
			})
		}
		second.hears(alsoWaiting)
		first.hears(waiting)
		resumed = true
		r.nothing("have it go on", r.svc.ResumeMember(frozen))
	}
}

// hears checks that what was waited for is noticed in time, counted from when the session
// was out of touch last. A session may be lost if its window has passed.
func (s sess) hears(waiting *task[[]backend.Entry]) {
	r := s.r
	r.t.Helper()
	live := time.Now()
	for {
		select {
		case <-waiting.done:
			if waiting.err != nil && !(errors.Is(waiting.err, backend.ErrSessionLost) && time.Now().After(s.Deadline())) {
				r.nothing(waiting.what, waiting.err)
			}
			return
		case <-r.ctx.Done():
			r.failf("%s does not return", waiting.what)
		case <-time.After(r.svc.TTL / 100):
		}
		if s.State() != backend.Live {
			live = time.Now()
		}
		if late := time.Since(live); late > 2*r.svc.TTL {
			r.failf("%s has not returned %v after the change, and the session has been live all the time", waiting.what, late)
		}
	}
}
