package backendrules

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance/internal/harness"
)

// serviceMemberCutOff cuts each member off in turn: the one that leads is among them. One
// session stays with that member, which answers as long as it knows no better; two are with
// the others.
func serviceMemberCutOff(r *run) {
	for member := range r.Service.Members {
		x := r.trio(member)
		own := x.first.enqueue(x.dir, "own")
		x.second.sees(own)
		noticing := start(r, "await of an entry whose session is cut off", func(ctx context.Context) (time.Time, error) {
			now, err := x.second.Await(ctx, own)
			at := time.Now()
			if err == nil && now[0].Exists() {
				err = fmt.Errorf("it shows %+v", now[0])
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
			// The window never moves again once its end is reached, so a later look shows what
			// it was when the entry was gone.
			spare := gone.Sub(x.first.Deadline())
			if state := x.first.State(); spare < 0 || state == backend.Live {
				r.Failf("another session sees the entry of one at member %d gone while that is %v, %v before the end of its window", member, state, -spare)
			}
			writes = writing.value()
			done := x.areDone(writes)
			r.T.Logf("member %d: the entry was seen gone %v after the end of the window; %d of %d commits were done", member, spare, done, len(writes))
		})
		// Its client gets another session, and the old one stays lost.
		again := r.opens(x.process)
		again.enqueue(x.dir, "again")
		if state := x.first.State(); state != backend.Lost {
			r.Failf("the session at member %d that was lost is %v", member, state)
		}
		x.second.ranOut()
		x.writer.ranOut()
		for _, w := range writes {
			if w.err != nil && !errors.Is(w.err, backend.ErrIndeterminate) && again.peek(w.key).Exists() {
				r.Failf("commit said that nothing was written: %v; %s is there", w.err, w.key)
			}
		}
	}
}

// told is what a session was told of a commit.
type told struct {
	key   string
	entry backend.Entry // what there is then, if err is nil
	err   error
}

// writes has the first write one entry after the other until it is lost. A commit that is not
// answered is given up soon, so that many are under way.
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

// areDone checks that the writer sees what the first was told as done, and counts that. No error
// may say what a cut is not. The writer has seen a later change: that the first one's entry is
// gone.
func (x *trio) areDone(all []told) (done int) {
	for _, w := range all {
		switch {
		case w.err == nil:
			var e backend.Entry
			err := x.others(func(s sess) (err error) {
				e, err = s.Get(x.ctx, w.key)
				return err
			})
			if err != nil || !e.Same(w.entry) {
				x.Failf("commit was done and left %+v; another session sees %+v (%v)", w.entry, e, err)
			}
			done++
		case !harness.IsAny(w.err, backend.ErrIndeterminate, backend.ErrSessionLost, backend.ErrUnavailable, context.DeadlineExceeded):
			x.Failf("commit while the member is cut off: %v", w.err)
		}
	}
	return done
}
