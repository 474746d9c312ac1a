package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/stretchr/testify/assert"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/must"
)

// A play is what a peer does.
type play = func(ctx context.Context, p *turn) error

var promises = []promise{
	holder("simple lock", 1, func(ctx context.Context, s *backend.Session, key string) (*Hold, error) {
		return SimpleLock(ctx, s, key+"/lock", "")
	}),
	holder("fair lock", 1, func(ctx context.Context, s *backend.Session, key string) (*Hold, error) {
		return FairLock(ctx, s, key, "")
	}),
	holder("semaphore", 2, func(ctx context.Context, s *backend.Session, key string) (*Hold, error) {
		return Semaphore{key + "/permits", 2}.Acquire(ctx, s, "")
	}),
	{"shared lock", 6, sharedLock},
	{"queue", 6, queue},
	{"barrier", 4, barrier},
	{"double barrier", 5, doubleBarrier},
	{"number", 3, numbers(func(ctx context.Context, s *backend.Session, key string) (uint64, error) {
		return Number(ctx, s, key)
	})},
	{"count", 3, numbers(func(ctx context.Context, s *backend.Session, key string) (uint64, error) {
		c, err := Count(ctx, s, key, 3)
		return c.First, err
	})},
	{"ordinal", 4, ordinals},
	{"tasks", 6, tasks},
	{"config", 4, config},
}

// often requires that something has happened often in a bubble, as it does if nobody waits in vain.
func (w *world) often(n, least int) {
	if w.svc != nil {
		assert.GreaterOrEqual(w, n, least)
	}
}

// holder promises that at most so many hold it at once.
func holder(name string, most int, take func(ctx context.Context, s *backend.Session, key string) (*Hold, error)) promise {
	return promise{name, 4 + most, func(w *world) (play, func()) {
		var r referee
		return func(ctx context.Context, p *turn) error {
			h, err := take(ctx, p.Session, w.key)
			if err != nil {
				return err
			}
			return p.holds(&r, most, h)
		}, func() { w.often(r.taken, 10) }
	}}
}

// sharedLock: one writes, or many read.
func sharedLock(w *world) (play, func()) {
	var readers, writers referee
	l := SharedLock{w.key}
	return func(ctx context.Context, p *turn) error {
		lock, mine, others, most := l.Read, &readers, &writers, 6
		if p.IntN(3) == 0 {
			lock, mine, others, most = l.Write, &writers, &readers, 1
		}
		h, err := lock(ctx, p.Session, "")
		if err != nil {
			return err
		}
		w.mu.Lock()
		assert.Zero(w, others.live(w), "one reads and one writes")
		w.mu.Unlock()
		return p.holds(mine, most, h)
	}, func() { w.often(min(readers.taken, writers.taken), 5) }
}

// queue: each item is finished once, together with the effect in the commit of Finish.
func queue(w *world) (play, func()) {
	q := Queue{w.key}
	w.inDoubt = true
	var put, doubtful []string
	consume := func(ctx context.Context, p *turn) error {
		c, err := q.Take(ctx, p.Session)
		if err != nil {
			return err
		}
		if sleep(c, p.upTo(1000)) != nil {
			return c.Release(w.Context())
		}
		err = c.Finish(ctx, backend.CompareAndSet(w.key+"/effects/"+string(c.Item.Value), nil, 0))
		assert.NotErrorIs(w, err, backend.ErrConflict, "finished twice")
		return err
	}
	return func(ctx context.Context, p *turn) error {
			if p.i > 2 {
				return consume(ctx, p)
			}
			item := strconv.FormatUint(p.Uint64(), 36)
			_, err := q.Put(ctx, p.Session, []byte(item))
			w.mu.Lock()
			if err == nil {
				put = append(put, item)
			} else {
				doubtful = append(doubtful, item)
			}
			w.mu.Unlock()
			return errors.Join(err, sleep(ctx, p.upTo(2000)))
		}, func() {
			p := &turn{&peer{w: w, Rand: draws(0, 0)}, open(w.T, w.Backend), nil}
			children := func(dir string) []string {
				keys, _, err := p.Children(w.Context(), w.key+dir, 1000)
				assert.NoError(w, err)
				return strings.Split(strings.ReplaceAll(strings.Join(keys, " "), w.key+dir+"/", ""), " ")
			}
			for children("/items")[0] != "" {
				assert.NoError(w, consume(w.Context(), p))
			}
			effects := children("/effects")
			assert.Subset(w, effects, put, "an item is lost")
			assert.Subset(w, append(put, doubtful...), effects)
			w.often(len(put), 10)
		}
}

// barrier: nobody passes an existing one.
func barrier(w *world) (play, func()) {
	b := Barrier(w.key + "/barrier")
	stands, sets, passed := false, 0, 0
	standing := func(now bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if stands = now; now {
			sets++
		}
	}
	return func(ctx context.Context, p *turn) error {
		if p.i > 0 {
			w.mu.Lock()
			stood, since := stands, sets
			w.mu.Unlock()
			err := b.Wait(ctx, p.Session)
			w.mu.Lock()
			assert.False(w, err == nil && stood && stands && sets == since, "it passes a barrier that stands")
			passed++
			w.mu.Unlock()
			return errors.Join(err, sleep(ctx, p.upTo(2)))
		}
		err := b.Set(ctx, p.Session)
		standing(err == nil)
		_ = sleep(ctx, p.upTo(500))
		standing(false)
		return errors.Join(err, b.Lift(ctx, p.Session), sleep(ctx, p.upTo(100)))
	}, func() { w.often(min(sets, passed), 10) }
}

// doubleBarrier: those inside belong to one round, of N at most, and one that continues leaves nobody of its
// round inside.
func doubleBarrier(w *world) (play, func()) {
	d := DoubleBarrier{Dir: w.key, N: 3}
	inside, rounds := make(map[uint64]*referee), make(map[uint64]int)
	return func(ctx context.Context, p *turn) error {
			in, err := d.Enter(ctx, p.Session, "")
			if err != nil {
				return err
			}
			if w.svc != nil && !w.svc.Entry(in.entries[0].Key).Exists() { // deleted in the instant before the barrier opened
				return in.Leave(ctx)
			}
			w.mu.Lock()
			round := in.ready.Rev
			if inside[round] == nil {
				inside[round] = new(referee)
			}
			rounds[round]++
			for other := range inside {
				assert.True(w, other == round || inside[other].live(w) == 0, "two rounds at once")
			}
			w.mu.Unlock()
			inside[round].takes(p, d.N, in.Token())
			_ = sleep(in, p.upTo(100))
			inside[round].ends(p)
			if err = in.Leave(ctx); err == nil {
				w.mu.Lock()
				defer w.mu.Unlock()
				assert.Zero(w, inside[round].live(w), "one is still inside")
			}
			return err
		}, func() {
			full := 0
			for _, n := range rounds {
				assert.LessOrEqual(w, n, d.N)
				full += n / d.N
			}
			w.often(full, 3)
		}
}

// numbers never repeat, and are higher than all that were returned before the call.
func numbers(take func(ctx context.Context, s *backend.Session, key string) (uint64, error)) func(w *world) (play, func()) {
	return func(w *world) (play, func()) {
		seen, highest := make(map[uint64]bool), uint64(0)
		return func(ctx context.Context, p *turn) error {
			w.mu.Lock()
			before := highest
			w.mu.Unlock()
			n, err := take(ctx, p.Session, w.key+"/one")
			if err != nil {
				return err
			}
			w.mu.Lock()
			assert.Greater(w, n, before)
			assert.False(w, seen[n], "%d comes twice", n)
			seen[n], highest = true, max(n, highest)
			w.mu.Unlock()
			return sleep(ctx, p.upTo(200))
		}, func() { w.often(len(seen), 10) }
	}
}

// ordinals are the lowest free ones, each held by one.
func ordinals(w *world) (play, func()) {
	var each [10]referee
	return func(ctx context.Context, p *turn) error {
		i, h, err := Ordinal(ctx, p.Session, w.key, "")
		if err != nil {
			return err
		}
		return p.holds(&each[i], 1, h)
	}, func() { w.often(each[0].taken, 10) }
}

// tasks: no two live workers have the same task, and all are done in the end.
func tasks(w *world) (play, func()) {
	var names []string
	hands := make(map[string]*referee)
	for i := range 10 {
		names = append(names, fmt.Sprint("task-", i))
		hands[names[i]] = new(referee)
	}
	return func(ctx context.Context, p *turn) error {
			if p.i > 1 {
				return Work(ctx, p.Session, w.key, "", func(ctx context.Context, j Job) error {
					hands[j.Task].takes(p, 1, j.Token)
					err := errors.Join(sleep(ctx, p.upTo(2000)), j.Report(ctx, 50))
					hands[j.Task].ends(p)
					return err
				})
			}
			h, err := FairLock(ctx, p.Session, w.key+"/seat", "")
			if err != nil {
				return err
			}
			err = Control(h, p.Session, h.Conditions(), w.key, names, w.Logf)
			return errors.Join(err, h.Release(w.Context()), sleep(ctx, p.upTo(1000)))
		}, func() {
			for _, name := range names {
				if w.svc != nil {
					a, _ := decode[assignment](w.svc.Entry(w.key + "/tasks/" + name))
					assert.True(w, a.Done, name)
				}
			}
		}
}

// config: no update is lost, or done twice, and a subscriber never goes back.
func config(w *world) (play, func()) {
	key := w.key + "/config"
	w.inDoubt = true
	published, doubtful := 0, 0
	return func(ctx context.Context, p *turn) error {
			if p.i == 0 {
				last, b := uint64(0), w.Backend
				if p.client != nil {
					b = p.client
				}
				return Subscribe(ctx, b, key, func(e backend.Entry) {
					n, _ := decode[counted](e)
					assert.True(w, n.Last > last || !e.Exists(), "from %d to %d", last, n.Last)
					last = n.Last
				})
			}
			was, err := read(ctx, p.Session, key)
			if err != nil {
				return err
			}
			n, _ := decode[counted](was)
			_, err = Publish(ctx, p.Session, was, encode(counted{n.Last + 1, strconv.Itoa(p.Int())})) // each by one
			w.mu.Lock()
			switch {
			case err == nil:
				published++
			case refused(err):
				err = nil
			default:
				doubtful++
			}
			w.mu.Unlock()
			return errors.Join(err, sleep(ctx, p.upTo(200)))
		}, func() {
			n, _ := decode[counted](must.Get(open(w.T, w.Backend).Get(w.Context(), key))(w.T))
			assert.GreaterOrEqual(w, n.Last, uint64(published), "an update is lost")
			assert.LessOrEqual(w, n.Last, uint64(published+doubtful), "one is done twice")
			w.often(published, 10)
		}
}
