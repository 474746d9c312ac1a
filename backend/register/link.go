package register

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/elector-go/elector/backend/driver"
)

// A snapshot is the object at one moment. doc is nil if there is none.
type snapshot struct {
	doc *document
	tag string
}

func (s *snapshot) seq() uint64 {
	if s == nil || s.doc == nil {
		return 0
	}
	return s.doc.Seq
}

// A link is what the sessions of a Backend share: the newest snapshot, and since when the heartbeats of
// others are known. It reads by itself only while it has sessions.
type link struct {
	store    Store
	notified bool // the store is a Notifier
	poll     time.Duration

	mu       sync.Mutex
	snap     *snapshot // the newest; nil before the first
	changed  driver.Signal
	beats    map[string]sighting // by session
	sessions map[*session]struct{}
	waiters  int
	wanted   driver.Waker // woken for the first waiter
	rest     time.Time    // when the next swap may begin
	stop     context.CancelFunc
}

// A sighting is when this process received a heartbeat for the first time.
type sighting struct {
	beat  uint64
	first time.Time
}

func (l *link) init(store Store, poll time.Duration) {
	l.store, l.poll = store, poll
	_, l.notified = store.(Notifier)
	l.beats, l.sessions, l.wanted = make(map[string]sighting), make(map[*session]struct{}), driver.NewWaker()
}

// join adds a session. The first one starts the goroutine that hears of changes.
func (l *link) join(s *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sessions[s] = struct{}{}
	if len(l.sessions) > 1 {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	l.stop = func() { stop(); <-done }
	go func() {
		defer close(done)
		if n, ok := l.store.(Notifier); ok {
			n.Notify(ctx, func(object []byte, tag string) { l.notice(ctx, object, tag) })
			return
		}
		l.polls(ctx)
	}()
}

// leave removes a session. The last one waits for the goroutine's end.
func (l *link) leave(s *session) {
	l.mu.Lock()
	delete(l.sessions, s)
	stop := l.stop
	if len(l.sessions) > 0 {
		stop = nil
	}
	l.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// notice handles a notice of the store.
func (l *link) notice(ctx context.Context, object []byte, tag string) {
	l.mu.Lock()
	known := l.snap != nil && tag != "" && l.snap.tag == tag
	l.mu.Unlock()
	if known {
		return
	}
	if object != nil {
		if doc, err := decode(object); err == nil {
			l.adopt(&snapshot{doc, tag})
			return
		}
	}
	if err := l.look(ctx); err != nil && ctx.Err() == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		for s := range l.sessions {
			s.outOfTouch(err)
		}
	}
}

// polls reads again and again while somebody waits.
func (l *link) polls(ctx context.Context) {
	for {
		l.mu.Lock()
		waiting := l.waiters > 0
		l.mu.Unlock()
		if !waiting {
			select {
			case <-l.wanted:
				continue
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-time.After(l.poll):
			_ = l.look(ctx) // heartbeats find out that the store is out of reach
		case <-ctx.Done():
			return
		}
	}
}

// patience bounds a request that is not a session's.
const patience = 5 * time.Second

// look reads for all that wait. A request without an answer does not end that.
func (l *link) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := l.read(ctx)
	return err
}

// read asks the store. A call that begins after another has returned never returns an older snapshot.
func (l *link) read(ctx context.Context) (*snapshot, error) {
	l.mu.Lock()
	before := l.snap
	l.mu.Unlock()
	object, tag, err := l.store.Read(ctx)
	if err != nil {
		return nil, err
	}
	doc, err := decode(object)
	if err != nil {
		return nil, err
	}
	snap := &snapshot{doc, tag}
	if snap.seq() < before.seq() {
		l.wentBack(before, snap)
	}
	return l.adopt(snap), nil
}

// swap puts a document in the place of a snapshot.
func (l *link) swap(ctx context.Context, old *snapshot, next *document) error {
	object, err := next.encode()
	if err != nil {
		return err
	}
	tag, err := l.store.Swap(ctx, object, old.tag)
	if err == nil {
		l.adopt(&snapshot{next, tag})
	}
	return err
}

// wentBack handles an object that is older than one that was known before it was asked for: it was deleted,
// or restored from a backup. All sessions end, because what they have done may be undone.
func (l *link) wentBack(known, now *snapshot) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.snap.seq() < known.seq() {
		return // another read has found that out
	}
	l.snap = nil
	clear(l.beats)
	for s := range l.sessions {
		s.Lose(fmt.Errorf("the object was deleted or restored: it was at swap %d, and is at %d", known.seq(), now.seq()))
	}
}

// adopt makes a snapshot the current one, unless a newer one is known, and returns the current one.
func (l *link) adopt(snap *snapshot) *snapshot {
	now := time.Now() // after the reply has come: a heartbeat in it was sent before
	l.mu.Lock()
	defer l.mu.Unlock()
	// The same number with another tag is news, too: somebody has changed what is around the document, or has
	// edited the document and not counted it. Swaps have to expect the new tag.
	if known := l.snap; known != nil && (snap.seq() < known.seq() || snap.seq() == known.seq() && snap.tag == known.tag) {
		return known
	}
	l.snap = snap
	for id := range l.beats {
		if _, lives := snap.sessions()[id]; !lives {
			delete(l.beats, id)
		}
	}
	for id, r := range snap.sessions() {
		if at, known := l.beats[id]; !known || at.beat != r.Beat {
			l.beats[id] = sighting{r.Beat, now}
		}
	}
	for s := range l.sessions { // before anybody sees that the entries of a session are gone
		s.check(snap)
	}
	l.changed.Fire()
	return snap
}

func (s *snapshot) sessions() map[string]record {
	if s.doc == nil {
		return nil
	}
	return s.doc.Sessions
}

// latest returns the newest snapshot, which may be nil, and a channel that is closed when there is a newer one.
func (l *link) latest() (*snapshot, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.snap, l.changed.Next()
}

// silent returns the sessions whose heartbeat in a snapshot this process has known for their timeout.
func (l *link) silent(snap *snapshot) (ids []string) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, r := range snap.sessions() {
		if at, known := l.beats[id]; known && at.beat == r.Beat && now.Sub(at.first) >= r.TTL {
			ids = append(ids, id)
		}
	}
	return ids
}

// untilSilent returns how long it takes until the first session other than own is silent if it sends
// nothing, but at most most.
func (l *link) untilSilent(own string, most time.Duration) time.Duration {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.snap == nil {
		return most
	}
	for id, r := range l.snap.sessions() {
		if at, known := l.beats[id]; known && id != own {
			most = min(most, at.first.Add(r.TTL).Sub(now))
		}
	}
	return max(most, 0)
}

// yield leaves others time for a read and a swap after one of this process, which took so long: one that
// writes all the time would otherwise keep the heartbeats of all others from succeeding. While a heartbeat is
// late, some rests after commits are longer: its requests may take longer than those of this process. Not all,
// as its process may be dead.
func (l *link) yield(took time.Duration, commit bool) {
	const longest = 500 * time.Millisecond
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	rest := rand.N(4*took + 1)
	for id, at := range l.beats {
		if ttl := l.snap.sessions()[id].TTL; commit && now.Sub(at.first) > ttl/8*3 && rand.N(4) == 0 {
			rest = max(rest, min(ttl/16, longest))
		}
	}
	l.rest = now.Add(rest)
}

// pace returns a channel that is ready when the next swap may begin, after most at the latest: a slow reply
// must not end a session.
func (l *link) pace(most time.Duration) <-chan struct{} {
	ready := make(chan struct{})
	l.mu.Lock()
	defer l.mu.Unlock()
	if left := min(time.Until(l.rest), most); left > 0 {
		time.AfterFunc(left, func() { close(ready) })
		return ready
	}
	close(ready)
	return ready
}

// waits counts a call that waits for a change, until done is called.
func (l *link) waits() (done func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiters++
	l.wanted.Wake()
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.waiters--
	}
}
