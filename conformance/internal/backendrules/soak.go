package backendrules

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance/internal/harness"
	"github.com/elector-go/elector/conformance/kit"
)

var soakRules = []rule{
	promise("soak/sessions", soakSessions,
		"Nothing keeps a closed session in memory."),
	promise("soak/entries", soakEntries,
		"An open session keeps nothing in memory of entries that it knows to be gone, whichever session removed them."),
	{
		Name:  "soak/links",
		Text:  "What a session keeps in memory does not grow with the number of links that it loses.",
		Need:  []string{"Suspend"},
		Apart: true,
		Long:  "its link is cut and comes back sixteen times",
		Run:   soakLinks,
	},
}

func soakSessions(r *run) {
	c := r.client()
	dir := r.open(c).dir("d") // this session lives on: sessions may share what is below them
	var all []harness.Keepsake
	for range 12 {
		one := r.visit(c, dir)
		if one == nil {
			return
		}
		all = append(all, one)
	}
	r.LetGo("closed sessions", all)
	runtime.KeepAlive(c) // otherwise nobody would keep what it keeps
}

// visit opens a session and closes it. No other function's frame may hold a session when the rule looks
// whether they are gone.
//
//go:noinline
func (r *run) visit(c *kit.Client, dir string) harness.Keepsake {
	opened, err := c.Backend.Open(r.ctx, backend.OpenOptions{TTL: r.Lasting()})
	r.Must("open", err)
	s := sess{opened, r}
	e := s.enqueue(dir, "x")
	waiting := s.waits(e)
	s.close()
	if _, err = waiting.result(); err != nil { // without an error it has seen the entry go
		r.Refused("await in a session that is closed", err, backend.ErrSessionLost)
	}
	waiting.stop()
	v := reflect.ValueOf(opened.Life())
	if v.Kind() != reflect.Pointer {
		r.NotApplicable = fmt.Sprintf("sessions are of type %v, which is not a pointer", v.Type())
		return nil
	}
	return harness.Keep((*byte)(v.UnsafePointer()))
}

func soakEntries(r *run) {
	s, operator, dir := r.pair()
	ended, cancel := context.WithCancel(r.ctx)
	cancel()
	var written, read []harness.Keepsake
	for _, remove := range []func(e backend.Entry){
		s.discard,
		func(e backend.Entry) { s.delete(e) },
		func(e backend.Entry) {
			waiting := s.waits(e)
			operator.sees(e)
			operator.delete(e)
			isGone(waiting)
			waiting.stop()
		},
		func(e backend.Entry) {
			if err := s.Discard(ended, e); err == nil {
				return
			}
			s.misses(e.Key) // the session continues in the background
		},
	} {
		for range 3 * harness.SoakMost {
			w, g := s.briefly(dir, remove)
			written, read = append(written, w), append(read, g)
		}
	}
	// The last one goes as usual: then an earlier removal that was not confirmed can be.
	s.briefly(dir, s.discard)
	r.LetGo("values that were written to entries that are gone", written)
	r.LetGo("values of entries that are gone", read)
}

// briefly makes an entry, waits for it in vain, and removes it by remove. It returns the value that it
// has written, and the value that the session has returned.
//
//go:noinline
func (s sess) briefly(dir string, remove func(backend.Entry)) (written, read harness.Keepsake) {
	value := make([]byte, 4<<10)
	e := s.get(s.commit(backend.Enqueue(dir, value))[0].Key)
	waiting := s.waits(e)
	waiting.stop()
	if _, err := waiting.result(); err == nil {
		s.r.Failf("await of an entry that did not change returned %+v", waiting.v)
	}
	remove(e)
	return harness.Keep(&value[0]), harness.Keep(&e.Value[0])
}

const (
	// soakKeys are read on each link, soakAtOnce at a time.
	soakKeys, soakAtOnce = 800, 50
	// soakBytes may be kept for each read, though nothing should be: the least that a session could keep,
	// a word in a list, is no more than noise.
	soakBytes = 48
	// At most soakLinkCount links are measured, and at least soakLinkLeast. The more links, the less it
	// matters what else in the process grows and shrinks.
	soakLinkCount, soakLinkLeast = 16, 3
)

func soakLinks(r *run) {
	c := r.client()
	s := r.open(c)
	dir := s.dir("d")
	var known []backend.Entry
	var puts []backend.Op
	for i := range soakKeys {
		key := fmt.Sprintf("%s/seat%d", dir, i)
		known, puts = append(known, backend.Unknown(key)), append(puts, backend.CompareAndSet(key, nil, 0))
	}
	for some := range slices.Chunk(puts, soakAtOnce) {
		s.commit(some...)
	}
	look := func() {
		for some := range slices.Chunk(known, soakAtOnce) {
			_, err := s.Await(r.ctx, some...)
			r.Must("await of unknown entries, which is a read", err)
		}
	}
	again := func() {
		r.linkAgain(c, s)
		look()
	}
	look()
	again() // fills what is bounded
	heap := []int64{heapInUse()}
	for n := range soakLinkCount {
		again()
		heap = append(heap, heapInUse())
		// A large decrease proves nothing, either: garbage of one link may go with the next.
		if by := slope(heap); n+1 >= soakLinkLeast && max(by, -by) < soakKeys*soakBytes {
			return
		}
	}
	if by := slope(heap); by > 0 {
		r.Failf("with each link, on which the session read %d entries, the heap has grown by %d bytes: %d", soakKeys, by, heap)
	}
}

// slope returns by how much y grows per step: the median of the slopes between every two values, which a
// few outliers do not affect (the estimator of Theil and Sen).
func slope(y []int64) int64 {
	var all []int64
	for i := range y {
		for j := range i {
			all = append(all, (y[i]-y[j])/int64(i-j))
		}
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// linkAgain cuts the session's link and waits until it has another.
func (r *run) linkAgain(c *kit.Client, s sess) {
	c.Suspend()
	// A request in vain makes some sessions check at once whether they are in touch.
	asking := r.do("get while out of touch", func(ctx context.Context) error {
		_, err := s.Get(ctx, r.key("asked"))
		if errors.Is(err, backend.ErrNoEntry) {
			err = nil
		}
		return err
	})
	state, err := s.AwaitState(r.ctx, backend.Live)
	r.Must("await the suspension", err)
	r.FailIf(state != backend.Suspended, "after the link was cut the session is %v", state)
	c.Resume()
	defer asking.value()
	for state = s.State(); state != backend.Live; {
		r.FailIf(state == backend.Lost, "the session was lost though its link was cut only for a moment")
		state, err = s.AwaitState(r.ctx, state)
		r.Must("await the end of the suspension", err)
	}
}

// heapInUse returns the heap in use after four garbage collections: pools need a second one, objects with
// finalizers a third.
func heapInUse() int64 {
	for range 4 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
