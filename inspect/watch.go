package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"reflect"
	"sync"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
)

// WatchOptions configure Watch. The zero value is usable.
type WatchOptions struct {
	// Candidates makes the watch also follow who stands. After each change of the election's directory it
	// reads the entry of each candidate, but at most once per Every. After a look that has taken long it
	// pauses for longer, so that it looks for a tenth of its time: for ten seconds at most, and not when the
	// leader changes.
	Candidates bool
	// Every is the shortest time between two looks at the candidates, 100 ms at least. Zero means 2 s. It
	// does not delay changes of the leader, as long as the watch waits for them: see Watch.
	Every time.Duration

	_ struct{}
}

const (
	defaultEvery = 2 * time.Second
	minEvery     = 100 * time.Millisecond
	// silence is how long a watch yields nothing at its beginning.
	silence = 2 * time.Second
	// share limits the time that a watch spends on reading candidates to one part in share, up to a pause
	// of longestRest.
	share       = 10
	longestRest = 10 * time.Second
	// waitsPerWatch is how many waits a watch has: for the record, the leader's entry, what a strategy
	// also waits for, and the directory.
	waitsPerWatch = 4
)

// Watch yields the current state of an election, and again after each change: of the leader, its value, a
// request to it, the designation, the strategy, and, if asked for, the candidates. Changes that come
// faster than they are consumed may be skipped, except the latest. A View without a Strategy means that
// there is no election yet, or no longer.
//
// It continues through lost sessions and unreachable servers, with pauses of up to five seconds. As soon
// as its session knows that it is out of touch, it yields a View with Trouble, with the last known state,
// if any. When it is in touch again and has looked again, the next View has no Trouble.
//
// The last thing it yields is an error: when ctx ends, the Inspector is closed, the service denies access
// (backend.ErrDenied), or an argument is wrong (elector.ErrConfig, backend.ErrBadKey).
//
// To follow the leader, it waits for one entry and for the record. To follow candidates, it waits for the
// directory, which wakes only this watch and no candidate.
//
// Consul accepts a limited number of waits from one host (backend.Limits.Waits), and candidates need them,
// too. So there an Inspector waits for about 16 elections at once. Other watches look every
// WatchOptions.Every instead, until they have room.
func (i *Inspector) Watch(ctx context.Context, election string, o WatchOptions) iter.Seq2[View, error] {
	return func(yield func(View, error) bool) {
		err := check(election)
		if o.Every != 0 && o.Every < minEvery {
			err = errors.Join(err, fmt.Errorf("WatchOptions.Every %v is too short: at least %v: %w", o.Every, minEvery, elector.ErrConfig))
		}
		ctx, cancel := i.bind(ctx)
		defer cancel()
		if err = errors.Join(err, ctx.Err()); err != nil {
			yield(View{}, fail(ctx, "watch", election, err))
			return
		}
		if o.Every == 0 {
			o.Every = defaultEvery
		}
		w := &watch{
			i: i, o: o, path: election, view: View{Election: election},
			changed: make(chan struct{}, 1), poke: make(chan struct{}, 1), over: make(chan struct{}),
		}
		i.watches.Go(func() { w.run(ctx) })
		defer func() { cancel(); <-w.over }()
		for over := false; !over; {
			select {
			case <-w.changed:
			case <-w.over:
				over = true
			}
			if v, is := w.news(); is && !yield(v, nil) {
				return
			}
		}
		yield(View{}, fail(ctx, "watch", election, w.err))
	}
}

// watch is a running watch.
type watch struct {
	i       *Inspector
	o       WatchOptions
	path    string
	changed chan struct{} // there may be news
	poke    chan struct{} // the leader has changed: look at the candidates
	over    chan struct{} // closed when run has returned and set err
	err     error

	mu   sync.Mutex
	view View
	told *View // what was yielded last
	// seen: there is something to yield. counted: the candidates have been read.
	seen, counted bool
	leader        elector.Leader
	suspended     bool
}

// news returns the next View to yield, if it differs from the last one.
func (w *watch) news() (View, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.view.Trouble == nil && !w.shows() {
		return View{}, false
	}
	if w.told != nil {
		before := *w.told
		before.At = w.view.At
		if reflect.DeepEqual(before, w.view) {
			return View{}, false
		}
	}
	v := w.view
	w.told = &v
	return v, true
}

// shows reports whether all has been read that the watch is asked for, with w.mu locked.
func (w *watch) shows() bool { return w.seen && (w.counted || !w.o.Candidates) }

// update changes what is known.
func (w *watch) update(f func(v *View)) {
	w.mu.Lock()
	f(&w.view)
	w.mu.Unlock()
	signal(w.changed)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// errEnded is the outcome of a call that ended its goroutine.
var errEnded = errors.New("a layer of the backend, or the strategy, has ended its goroutine (runtime.Goexit, or FailNow of a test)")

// run follows the election until ctx ends, or trying again is useless.
func (w *watch) run(ctx context.Context) {
	defer close(w.over)
	w.err = errEnded
	defer time.AfterFunc(silence, func() {
		w.update(func(v *View) {
			if !w.shows() && v.Trouble == nil {
				v.Trouble = &Trouble{time.Now(), "the service has not answered yet"}
			}
		})
	}).Stop()
	const shortest, longest = 50 * time.Millisecond, 5 * time.Second
	for tries := 0; ; {
		began := time.Now()
		err := w.follow(ctx)
		if err != nil && ctx.Err() == nil {
			w.trouble(err.Error())
		}
		if w.err = cmp.Or(ctx.Err(), err); ctx.Err() != nil || errors.Is(err, backend.ErrDenied) || errors.Is(err, backend.ErrBadKey) {
			return
		}
		if err == nil || time.Since(began) > longest {
			tries = 0
		}
		wait := min(shortest<<tries, longest) // applies also if something changes all the time
		tries = min(tries+1, 10)
		pause(ctx, wait/2+rand.N(wait/2+1))
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// trouble notes that what is known may be outdated.
func (w *watch) trouble(why string) {
	w.update(func(v *View) {
		since := time.Now()
		if v.Trouble != nil {
			since = v.Trouble.Since
		}
		v.Trouble = &Trouble{since, why}
	})
}

// follow follows one incarnation of the election in one session, as long as that is in touch. A nil error
// means that it is time to look again.
func (w *watch) follow(ctx context.Context) error {
	s, err := w.i.live(ctx)
	if err != nil {
		return err
	}
	w.update(func(*View) { w.suspended = false })
	touch := func(ctx context.Context) error { return w.touch(ctx, s) }
	if !w.i.mayWait() {
		return race(ctx, touch, w.polls)
	}
	defer w.i.leaveWaiting()
	return race(ctx, touch, func(ctx context.Context) error { return w.elections(ctx, s) })
}

// mayWait reserves room for a watch that waits, if there is any.
func (i *Inspector) mayWait() bool {
	select {
	case i.waiting <- struct{}{}:
		return true
	default:
		return i.waiting == nil
	}
}

func (i *Inspector) leaveWaiting() {
	if i.waiting != nil {
		<-i.waiting
	}
}

// race runs all functions until one returns, and returns its error when all have returned.
func race(ctx context.Context, all ...func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ends := make(chan error, len(all))
	for _, f := range all {
		go func() {
			err := errEnded
			defer func() { ends <- err }()
			err = f(ctx)
		}()
	}
	first := <-ends
	cancel()
	for range all[1:] {
		<-ends
	}
	return first
}

// touch reports when the session is out of touch, and returns nil when it is back: a change may be about
// to be noticed, so the watch looks again before it reports that all is well.
func (w *watch) touch(ctx context.Context, s *backend.Session) (err error) {
	suspended := false
	for state := s.State(); ; {
		switch {
		case state == backend.Lost:
			return backend.ErrSessionLost
		case state == backend.Suspended:
			suspended = true
			w.update(func(*View) { w.suspended = true })
			w.trouble("out of touch with the service: session suspended")
		case suspended:
			return nil
		}
		if state, err = s.AwaitState(ctx, state); err != nil {
			return err
		}
	}
}

// elections finds the election, and follows it until it is another one.
func (w *watch) elections(ctx context.Context, s *backend.Session) error {
	at := time.Now()
	if err := s.CatchUp(ctx, w.i.somewhere(w.path)); err != nil {
		return err
	}
	e, err := w.i.find(ctx, s, w.path)
	w.update(func(*View) { w.seen, w.counted = false, false }) // what is known is as old as the last round
	changes := func(ctx context.Context) error {
		if len(e.looked) == 0 { // Kafka's, at the root: nothing else can come there
			<-ctx.Done()
			return ctx.Err()
		}
		_, err := s.Await(ctx, e.looked...)
		return err
	}
	if errors.Is(err, elector.ErrNoElection) {
		w.update(func(v *View) {
			was := *v
			*v = View{Election: w.path, At: at}
			if w.suspended {
				v.Trouble = was.Trouble
			}
			w.seen, w.counted, w.leader = true, true, elector.Leader{}
		})
		return changes(ctx)
	}
	if err != nil {
		return err
	}
	all := []func(context.Context) error{changes, func(ctx context.Context) error { return w.leaders(ctx, s, e, at) }}
	if w.o.Candidates {
		all = append(all, func(ctx context.Context) error { return w.candidates(ctx, s, e) })
	}
	return race(ctx, all...)
}

// leaders follows who leads. The first look reports that all is well, unless the session is suspended
// again.
func (w *watch) leaders(ctx context.Context, s *backend.Session, e found, at time.Time) error {
	first := true
	for leader, err := range e.strategy.use.Observe(ctx, s, e.dir) {
		if err != nil {
			return err
		}
		if !first {
			at = time.Now()
		}
		first = false
		w.update(func(v *View) {
			was := *v
			*v = e.view(at)
			v.Candidates, v.Count = was.Candidates, was.Count
			*v = v.seated(leader)
			if w.suspended {
				v.Trouble, v.At = was.Trouble, was.At
			}
			w.seen, w.leader = true, leader
		})
		signal(w.poke)
	}
	return fmt.Errorf("strategy %q has stopped observing without an error", e.strategy.use.Name())
}

// polls looks repeatedly, until there is room to wait.
func (w *watch) polls(ctx context.Context) error {
	for {
		began := time.Now()
		late := time.AfterFunc(max(silence, w.o.Every), func() { w.trouble("the service has not answered for a while") })
		v, err := w.i.look(ctx, "watch", w.path, w.o.Candidates)
		late.Stop()
		switch {
		case errors.Is(err, elector.ErrNoElection):
			v = View{Election: w.path, At: began}
		case err != nil:
			return err
		}
		w.update(func(view *View) {
			if w.suspended {
				v.Trouble = view.Trouble
			}
			*view, w.seen, w.counted = v, true, true
		})
		if err := w.rest(ctx, began); err != nil {
			return err
		}
		if w.i.mayWait() {
			w.i.leaveWaiting()
			return nil
		}
	}
}

// rest pauses between two looks. The last look started at began.
func (w *watch) rest(ctx context.Context, began time.Time) error {
	more := min(share*time.Since(began), longestRest) - w.o.Every
	pause(ctx, w.o.Every)
	select {
	case <-w.poke:
		signal(w.poke) // for the look that follows
	case <-time.After(more):
	case <-ctx.Done():
	}
	return ctx.Err()
}

// candidates reads who stands after each change, but not too often.
func (w *watch) candidates(ctx context.Context, s *backend.Session, e found) error {
	for {
		var listing backend.Listing
		var err error
		began := time.Now()
		if e.strategy.lists {
			if listing, err = s.List(ctx, e.dir); err != nil {
				return err
			}
		}
		listed, err := e.strategy.use.Candidates(ctx, s, e.dir)
		if err != nil {
			return err
		}
		w.update(func(v *View) {
			*v = v.standing(candidatesOf(listed), w.leader)
			v.Count, w.counted = len(listed), true
			if w.seen && !w.suspended {
				v.Trouble = nil
			}
		})
		if err := w.rest(ctx, began); err != nil {
			return err
		}
		poked := func(ctx context.Context) error {
			select {
			case <-w.poke:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		listens := func(ctx context.Context) error {
			_, err := s.AwaitList(ctx, listing)
			return err
		}
		if !e.strategy.lists {
			err = poked(ctx)
		} else {
			err = race(ctx, poked, listens)
		}
		if err != nil {
			return err
		}
	}
}
