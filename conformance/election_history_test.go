package conformance

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/elector-go/elector"
)

// A fakeTerm is a term whose end is in the test's hands.
type fakeTerm struct {
	valid  bool
	cancel context.CancelCauseFunc
	term   *elector.Term
}

func newFakeTerm(token uint64) *fakeTerm {
	f := &fakeTerm{valid: true}
	ctx, cancel := context.WithCancelCause(context.Background())
	f.cancel = cancel
	f.term = elector.NewTerm(elector.TermConfig{
		Token: token, Context: ctx,
		Valid:    func() bool { return f.valid },
		Proclaim: func(context.Context, []byte) error { return nil },
		Resign:   func(context.Context) error { return nil },
	})
	return f
}

// enter is history.begin without the goroutine.
func (f *fakeTerm) enter(h *history, candidate string) {
	h.terms = append(h.terms, &span{candidate: candidate, token: f.term.Token(), term: f.term, from: h.clock.Add(1)})
	h.look()
}

func (f *fakeTerm) end() {
	f.valid = false
	f.cancel(errors.New("over"))
}

func TestHistory(t *testing.T) {
	cases := []struct {
		name             string
		play             func(h *history, a, b *fakeTerm)
		tokenA, tokenB   uint64
		overlaps, tokens string // what is found; "" is nothing
	}{
		{"one after the other", func(h *history, a, b *fakeTerm) {
			a.enter(h, "a")
			a.end()
			h.look()
			b.enter(h, "b")
		}, 1, 2, "", ""},
		{"both valid", func(h *history, a, b *fakeTerm) {
			a.enter(h, "a")
			b.enter(h, "b")
		}, 1, 2, "valid at the same instant", ""},
		{"the old Context lives, but its window has passed", func(h *history, a, b *fakeTerm) {
			a.enter(h, "a")
			a.valid = false
			b.enter(h, "b")
		}, 1, 2, "Contexts of", ""},
		{"the new one ends before the old one is read", func(h *history, a, b *fakeTerm) {
			a.enter(h, "a")
			b.end()
			b.enter(h, "b")
		}, 1, 2, "", ""},
		{"token falls", func(h *history, a, b *fakeTerm) {
			a.enter(h, "a")
			a.end()
			h.look()
			b.enter(h, "b")
		}, 2, 1, "", "lower token"},
		{"token repeats", func(h *history, a, b *fakeTerm) {
			a.enter(h, "a")
			a.end()
			h.look()
			b.enter(h, "b")
		}, 2, 2, "", "same token"},
		{"no token", func(h *history, a, _ *fakeTerm) { a.enter(h, "a") }, 0, 1, "", "token 0"},
		{"valid after the end", func(h *history, a, _ *fakeTerm) {
			a.enter(h, "a")
			a.cancel(errors.New("over"))
			h.look()
		}, 1, 2, "", "after Context was done"},
		{"valid again", func(h *history, a, _ *fakeTerm) {
			a.enter(h, "a")
			a.valid = false
			h.look()
			a.valid = true
			h.look()
		}, 1, 2, "", "true again"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h := newHistory()
			c.play(h, newFakeTerm(c.tokenA), newFakeTerm(c.tokenB))
			found(t, "overlaps", h.overlaps(true), c.overlaps)
			found(t, "tokens", h.tokens(true), c.tokens)
		})
	}
}

func found(t *testing.T, check string, v verdict, want string) {
	t.Helper()
	got := strings.Join(v, "; ")
	if want == "" && got != "" || !strings.Contains(got, want) {
		t.Errorf("%s found %q, want %q", check, got, want)
	}
}
