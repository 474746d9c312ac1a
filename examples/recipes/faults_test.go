package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/wait"
)

// A promise is what a recipe keeps under any fault of its participants.
type promise struct {
	name  string
	peers int
	// begin returns the repeated play of each peer, and a check of the outcome.
	begin func(w *world) (play func(ctx context.Context, p *turn) error, end func())
}

// A world has the peers: a memory service in a bubble, or a server.
type world struct {
	*testing.T
	backend.Backend
	svc *memory.Service // nil on a server
	key string
	// inDoubt is whether a call may return ErrIndeterminate while its session and its ctx live.
	inDoubt bool

	mu sync.Mutex
	// deleted has the newest entry of each session that an operator has deleted: the session hears of it afterwards.
	deleted map[string]uint64
}

// A peer takes part in one session after another.
type peer struct {
	*rand.Rand
	w      *world
	i      int
	client *memory.Client // in a bubble
	now    atomic.Pointer[turn]
	doubt  atomic.Bool // the outcome of its next write is unknown
}

// A turn is one play of a peer.
type turn struct {
	*peer
	*backend.Session
	giveUp context.CancelFunc
}

// A source is a PCG for several goroutines: a peer and its faults draw from one.
type source struct {
	sync.Mutex
	*rand.PCG
}

func (s *source) Uint64() uint64 {
	s.Lock()
	defer s.Unlock()
	return s.PCG.Uint64()
}

func draws(seed uint64, i int) *rand.Rand {
	return rand.New(&source{PCG: rand.NewPCG(seed, uint64(i))})
}

// upTo draws a duration of at most so many milliseconds, and a shorter one on a server.
func (p *peer) upTo(most int) time.Duration {
	if p.w.svc == nil {
		most = most/20 + 1
	}
	return time.Duration(p.IntN(most)+1) * time.Millisecond
}

// sessionTimeout is the session timeout in a bubble.
const sessionTimeout = 2 * time.Second

// faults are the faults of a peer. Only the memory service can cause them all.
var faults = []struct {
	name     string
	befalls  func(p *turn)
	onServer bool
}{
	{"nothing", func(*turn) {}, true},
	{"gives up", func(p *turn) { p.giveUp() }, true},
	{"crashes", func(p *turn) { _ = p.Close(p.w.Context()) }, true},
	{"is left in doubt", func(p *turn) { p.doubt.Store(true) }, true},
	{"loses a reply", func(p *turn) { p.client.LoseReply(nil) }, false},
	{"loses a request", func(p *turn) { p.client.LoseRequest(nil) }, false},
	{"gets a reply late", func(p *turn) { p.client.DelayReply(nil, p.upTo(2000)) }, false},
	{"sends a request late", func(p *turn) { p.client.DelayRequest(nil, p.upTo(2000)) }, false},
	{"wakes late", func(p *turn) { p.client.DelayWakeups(p.upTo(500)) }, false},
	{"is cut off before a reply", func(p *turn) {
		p.client.CutReply(nil)
		time.AfterFunc(sessionTimeout/2, p.client.Resume)
	}, false},
	{"is cut off, or paused", func(p *turn) { // for longer or shorter than its session lives
		d := p.upTo(4000)
		p.client.Suspend()
		time.AfterFunc(d, p.client.Resume)
	}, false},
	{"gives up out of touch", func(p *turn) {
		p.client.Suspend()
		p.giveUp()
		time.AfterFunc(sessionTimeout/2, p.client.Resume)
	}, false},
	{"expires", func(p *turn) {
		p.client.Resume() // while it is cut off it would hear of it too late
		p.client.Expire()
	}, false},
	{"loses an entry", func(p *turn) { // as an operator deletes it
		if all := leases(p.w.svc, "/"); len(all) > 0 {
			e := all[p.IntN(len(all))]
			p.w.mu.Lock()
			p.w.deleted[e.Session] = max(p.w.deleted[e.Session], e.Rev)
			p.w.mu.Unlock()
			p.w.svc.Delete(e.Key)
		}
	}, false},
	{"finds a scribble", func(p *turn) { // in the value of an ephemeral entry
		if all := leases(p.w.svc, "/"); len(all) > 0 {
			text := []string{"", "{}", "[]", "\xff", `{"Task":"none"}`, `{"Task":"//"}`, `{"Task":"../x"}`}[p.IntN(7)]
			assert.NoError(p.w, p.w.svc.Put(all[p.IntN(len(all))].Key, []byte(text)))
		}
	}, false},
	{"finds the service down", func(p *turn) {
		p.w.svc.Stop()
		time.Sleep(sessionTimeout / 4)
		p.w.svc.Start()
	}, false},
}

// TestFaults plays each recipe under each fault, on random peers, and then under all faults together.
func TestFaults(t *testing.T) {
	for _, p := range promises {
		t.Run(p.name, func(t *testing.T) {
			for i, f := range faults {
				t.Run(f.name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { p.keepInBubble(t, uint64(i), i) })
				})
			}
			t.Run("all", func(t *testing.T) {
				for seed := range uint64(10) {
					synctest.Test(t, func(t *testing.T) { p.keepInBubble(t, seed, -1) })
				}
			})
		})
	}
}

func (p promise) keepInBubble(t *testing.T, seed uint64, fault int) {
	svc := memory.New(memory.Options{DefaultTTL: sessionTimeout, Latency: func() time.Duration { return time.Millisecond }})
	p.keep(&world{T: t, Backend: svc, svc: svc, key: "/dir"}, seed, fault)
}

// TestFaultsOnServers does the same on real servers, with the faults that every process can have.
func TestFaultsOnServers(t *testing.T) {
	onServers(t, func(t *testing.T, b backend.Backend, key string) {
		for _, p := range promises {
			t.Run(p.name, func(t *testing.T) {
				t.Parallel() // the faults are not: a Consul agent takes 200 connections, and each wait has one
				for i, f := range faults {
					if f.onServer {
						t.Run(f.name, func(t *testing.T) {
							p.keep(&world{T: t, Backend: b, key: fmt.Sprintf("%s/%s/%d", key, p.name, i)}, 0, i)
						})
					}
				}
			})
		}
	})
}

// keep lets peers take part under a fault, or all faults for -1. In a bubble that takes a minute, and on a
// server as many plays as suffice.
func (p promise) keep(w *world, seed uint64, fault int) {
	w.deleted = make(map[string]uint64)
	play, end := p.begin(w)
	limit := time.Minute
	if w.svc == nil {
		limit = wait.Patience
	}
	ctx, stop := context.WithTimeout(w.Context(), limit)
	defer stop()
	var plays atomic.Int32
	var peers []*peer
	var group sync.WaitGroup
	for i := range p.peers {
		p, b := &peer{w: w, i: i, Rand: draws(seed, i)}, w.Backend
		if w.svc != nil {
			p.client = w.svc.Client(fmt.Sprint(i))
			b = p.client
		}
		p.now.Store(&turn{p, p.doubts(open(w.T, b)), func() {}})
		peers = append(peers, p)
		group.Go(func() {
			for ctx.Err() == nil {
				p.plays(ctx, b, play)
				if plays.Add(1) > 20 && w.svc == nil {
					stop()
				}
			}
		})
	}
	for r := (&peer{w: w, Rand: draws(seed, -1)}); ctx.Err() == nil; _ = sleep(ctx, r.upTo(1000)) {
		i := fault
		if i < 0 {
			i = r.IntN(len(faults))
		}
		if w.svc != nil {
			synctest.Wait() // no peer has something that the referee does not know of
		}
		faults[i].befalls(peers[r.IntN(len(peers))].now.Load())
	}
	for _, p := range peers {
		if w.svc != nil {
			p.client.Resume()
		}
	}
	group.Wait()
	assert.Greater(w, plays.Load(), int32(20), "it does not end")
	if w.svc != nil {
		time.Sleep(time.Minute)
		assert.Empty(w, leases(w.svc, "/"), "nothing is left behind, though the sessions live on")
	}
	for _, p := range peers {
		assert.NoError(w, p.now.Load().Close(w.Context()))
	}
	end()
}

// plays plays once, in a new session if the last one is lost.
func (p *peer) plays(ctx context.Context, b backend.Backend, play func(ctx context.Context, p *turn) error) {
	now := *p.now.Load()
	if now.State() == backend.Lost {
		s, err := b.Open(ctx, backend.OpenOptions{})
		if err != nil {
			_ = sleep(ctx, 100*time.Millisecond)
			return
		}
		now.Session = p.doubts(s)
	}
	ctx, now.giveUp = context.WithCancel(ctx)
	defer now.giveUp()
	p.now.Store(&now)
	err := play(ctx, &now)
	if err == nil || ctx.Err() != nil || now.State() == backend.Lost || p.w.inDoubt && errors.Is(err, backend.ErrIndeterminate) {
		return
	}
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	assert.NotZero(p.w, p.w.deleted[now.ID()], "nothing has happened, and it fails: %v", err)
}

// doubts hides the outcome of a write from the peer. It leaves commits of ephemeral entries alone: only the
// session itself can remove what it has not reported.
func (p *peer) doubts(s *backend.Session) *backend.Session {
	return around(s, func(c *backend.Call, next func() error) error {
		ephemeral := slices.ContainsFunc(c.Ops, backend.Op.Ephemeral)
		if len(c.Ops) == 0 || ephemeral || !p.doubt.CompareAndSwap(true, false) {
			return next()
		}
		if p.IntN(2) == 0 {
			return backend.ErrIndeterminate
		}
		return cmp.Or(next(), backend.ErrIndeterminate)
	})
}

// leases returns all ephemeral entries at or below dir.
func leases(svc *memory.Service, dir string) (all []backend.Entry) {
	for _, e := range svc.Entries(dir) {
		if e.Session != "" {
			all = append(all, e)
		}
		all = append(all, leases(svc, e.Key)...)
	}
	return all
}

// A referee knows which sessions hold something: from the moment they have it until they begin to release it,
// or are lost. A session knows its loss at once; a Hold's context ends a step of the scheduler later.
type referee struct {
	now   map[*backend.Session]bool
	taken int
	last  uint64 // token
}

func (r *referee) takes(p *turn, most int, token uint64) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	if p.State() == backend.Lost { // on a server, between the call's end and here: the next one may have it already
		return
	}
	if r.now == nil {
		r.now = make(map[*backend.Session]bool)
	}
	r.now[p.Session] = true
	if p.w.deleted[p.ID()] < token { // that was another entry; its own may be deleted before the reply comes that it has been made
		delete(p.w.deleted, p.ID())
	}
	assert.LessOrEqual(p.w, r.live(p.w), most, "more hold it than may")
	if most == 1 {
		assert.Greater(p.w, token, r.last, "tokens rise")
	}
	r.last, r.taken = token, r.taken+1
}

// live counts the holders whose session lives, and whose entry no operator has deleted.
func (r *referee) live(w *world) (n int) {
	for s := range r.now {
		if s.State() != backend.Lost && w.deleted[s.ID()] == 0 {
			n++
		}
	}
	return n
}

func (r *referee) ends(p *turn) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	delete(r.now, p.Session)
}

// holds keeps a Hold for a while, and releases it. The context of a holder that has lost its session ends.
func (p *turn) holds(r *referee, most int, h *Hold) error {
	r.takes(p, most, h.Token())
	_ = sleep(h, p.upTo(500))
	if p.IntN(10) == 0 {
		_ = sleep(h, p.upTo(4000)) // longer than a session without a heartbeat
	}
	r.ends(p)
	if p.State() == backend.Lost {
		select {
		case <-h.Done():
		case <-time.After(wait.Patience):
			assert.Fail(p.w, "a holder whose session is lost is not told")
		}
	}
	return h.Release(p.w.Context())
}
