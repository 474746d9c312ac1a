package history

import (
	"context"
	"slices"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
)

// Record returns e with its campaigns, its terms and their writes recorded. The candidate's name must be
// unique in its election and process.
//
// A goroutine takes readings of each term until it is over.
func Record(e elector.Elector, r *Recorder, candidate string) elector.Elector {
	return &recorded{e, r, candidate}
}

type recorded struct {
	elector.Elector
	r         *Recorder
	candidate string
}

func (e *recorded) Campaign(ctx context.Context) (*elector.Term, error) {
	ev := e.r.Start(Event{Kind: Campaign, Candidate: e.candidate})
	t, err := e.Elector.Campaign(ctx)
	if err != nil {
		e.r.Finish(ev, err)
		return t, err
	}
	ev.Token = t.Token()
	if s := t.Guard().Session; s != nil {
		ev.Session = s.ID()
	}
	return e.r.Watch(e.r.Finish(ev, nil), t), nil
}

func (e *recorded) Close(ctx context.Context) error {
	ev := e.r.Start(Event{Kind: Close, Candidate: e.candidate})
	err := e.Elector.Close(ctx)
	e.r.Finish(ev, err)
	return err
}

// Watch records a term that a recorded Campaign returned: it takes readings of it until it is over, and
// the term that Watch returns records its writes.
func (r *Recorder) Watch(campaign Event, t *elector.Term) *elector.Term {
	w := r.watch(campaign, t)
	r.Look()
	go w.follow()
	call := func(kind Kind, writes []Write) Event {
		e := w.event(kind)
		e.Writes = writes
		return r.Start(e)
	}
	return elector.NewTerm(elector.TermConfig{
		Token: t.Token(), Context: t.Context(), Guard: t.Guard, Get: t.Get, Asked: t.Asked(), Request: t.Request, Transfer: t.Transfer,
		Valid: func() bool { _, valid := w.look(); return valid },
		Proclaim: func(ctx context.Context, value []byte) error {
			e := call(Proclaim, nil)
			err := t.Proclaim(ctx, value)
			r.Finish(e, err)
			return err
		},
		Commit: func(ctx context.Context, writes ...elector.Write) ([]backend.Entry, error) {
			e := call(Commit, Writes(writes...))
			made, err := t.Commit(ctx, writes...)
			e.Writes = slices.Clone(e.Writes) // the original is recorded, and may be read
			for i := range min(len(made), len(e.Writes)) {
				e.Writes[i].Version = made[i].Version
			}
			r.Finish(e, err)
			return made, err
		},
		Resign: func(ctx context.Context) error {
			e := call(Resign, nil)
			err := t.Resign(ctx)
			r.Finish(e, err)
			return err
		},
	})
}

var opNames = [...]Op{
	elector.WriteCreate: Create, elector.WritePut: Put, elector.WriteCompareAndSet: CompareAndSet, elector.WriteDelete: Delete,
}

// Writes returns what writes do. One that is none of elector's has no name.
func Writes(writes ...elector.Write) []Write {
	all := make([]Write, len(writes))
	for i, w := range writes {
		all[i] = Write{Op: opNames[w.Kind()], Key: Text([]byte(w.Key())), Value: Text(w.Value()), Expected: w.Version()}
	}
	return all
}

// Hooks returns hooks that record when the candidate enrols, which Options.Ordered needs, and then call
// own.
func (r *Recorder) Hooks(candidate string, own elector.Hooks) elector.Hooks {
	var enter Event
	return elector.Hooks{Stage: func(e elector.StageEvent) { // of one campaign at a time
		switch {
		case e.Stage != elector.StageOffer:
		case !e.Completed:
			enter = r.Start(Event{Kind: Enter, Candidate: candidate})
		default:
			r.Finish(enter, e.Err)
		}
	}}.Join(own)
}
