package simulate

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/cmd/elector/internal/report"
)

const us = time.Microsecond

// plain is a model whose sums can be told apart.
var plain = report.Model{RoundTrip: 200 * us, Write: 300 * us, Read: 20 * us, Notice: 50 * us, KiB: 1024 * us}

// A hall is a server with some sessions, in a bubble.
type hall struct {
	t        *testing.T
	server   *server
	service  *memory.Service
	sessions []*session
	began    time.Time
}

func inHall(t *testing.T, sessions int, f func(t *testing.T, h *hall)) {
	synctest.Test(t, func(t *testing.T) {
		h := &hall{t: t, server: newServer(t.Context(), rand.New(rand.NewPCG(1, 1))), service: memory.New(memory.Options{})}
		if err := h.service.Put("/d", nil); err != nil {
			t.Fatal(err)
		}
		for i := range sessions {
			p := &process{Client: h.service.Client("c"), server: h.server, number: i}
			if _, err := p.Open(t.Context(), backend.OpenOptions{}); err != nil {
				t.Fatal(err)
			}
			h.sessions = append(h.sessions, p.session)
		}
		h.server.use(plain)
		h.began = time.Now()
		f(t, h)
	})
}

// since is the time since the hall opened, or since the last call.
func (h *hall) since() time.Duration {
	d := time.Since(h.began)
	h.began = time.Now()
	return d
}

func (h *hall) commit(i int, ops ...backend.Op) []backend.Entry {
	h.t.Helper()
	made, err := h.sessions[i].Commit(h.t.Context(), nil, ops...)
	if err != nil {
		h.t.Fatal(err)
	}
	return made
}

func (h *hall) want(what string, want time.Duration) {
	h.t.Helper()
	if got := h.since(); got != want {
		h.t.Errorf("%s took %v, want %v", what, got, want)
	}
}

func (h *hall) packets(want int) {
	h.t.Helper()
	if got := h.server.sent(); got != want {
		h.t.Errorf("%d packets, want %d", got, want)
	}
}

// One candidate has the server to itself: half a round trip, the cost, half a round trip.
func TestOneAlone(t *testing.T) {
	inHall(t, 1, func(t *testing.T, h *hall) {
		s, ctx := h.sessions[0], t.Context()
		seat := h.commit(0, backend.CreateEphemeral("/d/seat", nil))[0]
		h.want("a write", 500*us)
		if _, err := s.Commit(ctx, nil, backend.CreateEphemeral("/d/seat", nil)); err == nil {
			t.Error("created twice")
		}
		h.want("a refused write", 500*us)
		_, _ = s.Get(ctx, "/d/seat")
		h.want("a read", 220*us)
		me := h.commit(0, backend.Enqueue("/d", nil))[0]
		h.since()
		_, _ = s.List(ctx, "/d")
		h.want("a listing of one name of 50 bytes", 270*us)
		h.packets(10)
		// It lists, finds nobody, and reads itself.
		if before, err := s.Predecessor(ctx, me); err != nil || before.Exists() {
			t.Error(before, err)
		}
		h.want("the first look for a predecessor", 270*us+220*us)
		_, _ = s.Predecessor(ctx, me)
		h.want("the second, which knows the names and has a watch on itself", 0)
		_, _ = s.Await(ctx, backend.Unknown("/d/seat"), backend.Unknown("/d/none"))
		h.want("two reads in one go, of which one is made twice since nothing is there", 260*us)
		h.packets(10 + 4 + 6)
		_, _ = s.Await(ctx, backend.Unknown("/d/seat"))
		h.want("a read of what is watched", 0)
		if err := s.Discard(ctx, seat); err != nil {
			t.Error(err)
		}
		h.want("a drop", 500*us)
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
		h.want("a close", 500*us)
	})
}

// Three who come at once are served one after the other, and those who come later wait for
// them.
func TestQueue(t *testing.T) {
	inHall(t, 4, func(t *testing.T, h *hall) {
		var took []time.Duration
		done := make(chan time.Duration)
		for i := range 3 {
			go func() {
				_, _ = h.sessions[i].Get(context.Background(), "/d")
				done <- time.Since(h.began)
			}()
		}
		go func() {
			time.Sleep(30 * us) // at the server when the second read is half done
			_, _ = h.sessions[3].Commit(context.Background(), nil, backend.CreateEphemeral("/d/seat", nil))
			done <- time.Since(h.began)
		}()
		for range 4 {
			took = append(took, <-done)
		}
		if want := []time.Duration{220 * us, 240 * us, 260 * us, 560 * us}; !slices.Equal(took, want) {
			t.Errorf("done after %v, want %v", took, want)
		}
	})
}

// Three watch an entry. Its deletion queues three notices at the instant at which it takes
// effect; who is told reads nothing. A request that comes meanwhile waits for them.
func TestNotices(t *testing.T) {
	inHall(t, 5, func(t *testing.T, h *hall) {
		seat := h.commit(0, backend.CreateEphemeral("/d/seat", nil))[0]
		told := make(chan time.Duration, 3)
		for i := 1; i <= 3; i++ {
			go func() {
				now, err := h.sessions[i].Await(context.Background(), seat)
				if err != nil || now[0].Exists() {
					t.Error(now, err)
				}
				told <- time.Since(h.began)
			}()
		}
		time.Sleep(time.Second) // they wait
		h.packets(2 + 6)
		h.since()
		go func() {
			time.Sleep(310 * us) // at the server after 410 µs, in the middle of the first notice
			_, _ = h.sessions[4].Get(context.Background(), "/d")
			told <- time.Since(h.began)
		}()
		h.commit(0, backend.Delete(seat))
		if got := time.Since(h.began); got != 500*us {
			t.Errorf("the deletion took %v; it does not wait for its notices", got)
		}
		want := []time.Duration{550 * us, 600 * us, 650 * us, 670 * us}
		for _, d := range want {
			if got := <-told; got != d {
				t.Errorf("told after %v, want %v", got, d)
			}
		}
		h.packets(8 + 2 + 3 + 2)
	})
}

// Another change than a deletion is read again; a watch that nobody waits for fires, too,
// and is to be set again.
func TestChangeIsReadAgain(t *testing.T) {
	inHall(t, 2, func(t *testing.T, h *hall) {
		e := h.commit(0, backend.CreateEphemeral("/d/seat", nil))[0]
		go func() {
			time.Sleep(time.Second)
			h.commit(0, backend.Update(e, []byte("new")))
		}()
		now, err := h.sessions[1].Await(t.Context(), e)
		if err != nil || string(now[0].Value) != "new" {
			t.Fatal(now, err)
		}
		// Created after 500 µs; the write takes effect 400 µs after it was sent, its notice
		// arrives 150 µs later, and the read takes 220 µs.
		h.want("the news", 500*us+time.Second+400*us+150*us+220*us)
		h.commit(0, backend.Update(e, []byte("newer")))
		time.Sleep(time.Second)
		h.since()
		now, err = h.sessions[1].Await(t.Context(), now...)
		if err != nil || string(now[0].Value) != "newer" {
			t.Fatal(now, err)
		}
		h.want("what has changed since", 220*us)
	})
}

func TestDirectory(t *testing.T) {
	inHall(t, 2, func(t *testing.T, h *hall) {
		first := h.commit(0, backend.Enqueue("/d", nil))[0]
		h.since()
		known, err := h.sessions[1].List(t.Context(), "/d")
		if err != nil || len(known.Keys) != 1 {
			t.Fatal(known, err)
		}
		h.want("the listing", 270*us)
		go func() {
			time.Sleep(time.Second)
			h.commit(0, backend.Delete(first))
		}()
		now, err := h.sessions[1].AwaitList(t.Context(), known)
		if err != nil || len(now.Keys) != 0 {
			t.Fatal(now, err)
		}
		// The notice arrives 400+150 µs after the deletion was sent; then it lists nothing.
		h.want("the news", time.Second+550*us+220*us)
	})
}

// The end of a session, and of a caller's patience, end its waits.
func TestWaitsEnd(t *testing.T) {
	inHall(t, 1, func(t *testing.T, h *hall) {
		s := h.sessions[0]
		e := h.commit(0, backend.CreateEphemeral("/d/seat", nil))[0]
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := s.Await(ctx, e); err != context.DeadlineExceeded {
			t.Error(err)
		}
		followed := make(chan struct{})
		go func() { // as an elector does
			defer close(followed)
			for state := backend.Live; state != backend.Lost; {
				state, _ = s.AwaitState(context.Background(), state)
			}
		}()
		closed := make(chan error)
		time.AfterFunc(time.Minute, func() { closed <- s.Close(context.Background()) })
		if _, err := s.Await(t.Context(), e); err != backend.ErrSessionLost {
			t.Error(err)
		}
		<-followed
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if h.service.Entry("/d/seat").Exists() {
			t.Error("the entry outlives its session")
		}
	})
}
