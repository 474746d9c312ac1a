package history

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
)

// A fakeTerm is a term that the test ends.
type fakeTerm struct {
	valid bool
	end   context.CancelCauseFunc
	term  *elector.Term
	w     *watch
}

func newFake(token uint64) *fakeTerm {
	f := &fakeTerm{valid: true}
	ctx, cancel := context.WithCancelCause(context.Background())
	f.end = cancel
	f.term = elector.NewTerm(elector.TermConfig{
		Token: token, Context: ctx,
		Valid:    func() bool { return f.valid },
		Guard:    func() elector.Guard { return elector.Guard{} },
		Proclaim: func(context.Context, []byte) error { return nil },
		Commit:   func(context.Context, ...elector.Write) ([]backend.Entry, error) { return nil, nil },
		Resign:   func(context.Context) error { return nil },
	})
	return f
}

// enter does what a recorded Campaign does, without the goroutine that follows the term.
func (f *fakeTerm) enter(r *Recorder, candidate string) {
	e := r.Start(Event{Kind: Campaign, Candidate: candidate, Token: f.term.Token()})
	f.w = r.watch(r.Finish(e, nil), f.term)
	r.Look()
}

func (f *fakeTerm) over() {
	f.valid = false
	f.end(errors.New("over"))
}

func TestWatch(t *testing.T) {
	for _, c := range []struct {
		name string
		play func(r *Recorder, a, b *fakeTerm)
		want string // the violation that is found; "" means none
	}{
		{"one after the other", func(r *Recorder, a, b *fakeTerm) {
			a.enter(r, "a")
			a.over()
			r.Look()
			b.enter(r, "b")
		}, ""},
		{"both valid", func(r *Recorder, a, b *fakeTerm) {
			a.enter(r, "a")
			b.enter(r, "b")
		}, "valid at the same instant"},
		{"the old Context lives, but its window has passed", func(r *Recorder, a, b *fakeTerm) {
			a.enter(r, "a")
			a.valid = false
			b.enter(r, "b")
		}, "Contexts of"},
		{"the new one ends before the old one is read", func(r *Recorder, a, b *fakeTerm) {
			a.enter(r, "a")
			b.over()
			b.enter(r, "b")
		}, ""},
		{"valid after the end", func(r *Recorder, a, _ *fakeTerm) {
			a.enter(r, "a")
			a.end(errors.New("over"))
			r.Look()
			r.Look()
		}, "after its Context was seen done"},
		{"valid again", func(r *Recorder, a, _ *fakeTerm) {
			a.enter(r, "a")
			a.valid = false
			r.Look()
			a.valid = true
			r.Look()
		}, "again"},
		{"valid again when nobody looks any more", func(r *Recorder, a, _ *fakeTerm) {
			a.enter(r, "a")
			a.over()
			r.Look()
			a.valid = true
			a.w.look() // as the term's user does, by Valid
		}, "again"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := NewRecorder(Logical(), "").In("/e")
			a, b := newFake(1), newFake(2)
			c.play(r, a, b)
			var all []string
			for _, v := range r.History().Check(Options{Contexts: true}) {
				all = append(all, v.String())
			}
			if got := strings.Join(all, "; "); c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("found %q, want %q", got, c.want)
			}
		})
	}
}

// The record of a term has what its methods returned, and an end.
func TestFollow(t *testing.T) {
	for _, every := range []time.Duration{0, time.Millisecond} {
		t.Run(every.String(), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { follow(t, every) }) })
	}
}

func follow(t *testing.T, every time.Duration) {
	r := NewRecorder(Logical(), "").In("/e")
	r.LookEvery(every)
	f := newFake(1)
	term := r.Watch(r.Finish(r.Start(Event{Kind: Campaign, Candidate: "a", Token: 1}), nil), f.term)
	if !term.Valid() {
		t.Error("the term is not valid")
	}
	if _, err := term.Commit(t.Context(), elector.Put("/k", []byte("v"))); err != nil {
		t.Error(err)
	}
	last := func() int64 {
		synctest.Wait()
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.holding[0].valid.held.Call
	}
	before := last()
	time.Sleep(time.Second)
	if looked := last() > before; looked != (every > 0) {
		t.Errorf("looked at by itself: %v", looked)
	}
	f.over()
	<-term.Context().Done()
	synctest.Wait() // otherwise a second reader reads what has just ended
	if term.Valid() {
		t.Error("the term is valid after its end")
	}
	h := r.History()
	if v := h.Check(Options{Contexts: true}); v != nil {
		t.Error(v)
	}
	kinds := map[Kind]map[Outcome]int{}
	for _, e := range h.Events {
		if kinds[e.Kind] == nil {
			kinds[e.Kind] = map[Outcome]int{}
		}
		kinds[e.Kind][e.Outcome]++
	}
	for _, want := range []struct {
		kind    Kind
		outcome Outcome
	}{{Campaign, OK}, {Valid, OK}, {Valid, Refused}, {Context, OK}, {Context, Refused}, {Commit, OK}} {
		if kinds[want.kind][want.outcome] != 1 {
			t.Errorf("%s, %s: %d events, want 1", want.kind, want.outcome, kinds[want.kind][want.outcome])
		}
	}
}
