package wire

import (
	"encoding/binary"
	"slices"
	"strings"
	"sync"
)

// watched are the pending reads that must set a watch. The client library's own calls for that make a
// channel for each watch, on each link. Somebody would have to receive from it, and it cannot be given
// back before the watch fires. So these are its plain reads, in which the link sets the mark.
type watched struct {
	mu    sync.Mutex
	reads map[watchedPath]int // the number of calls
	users map[string]struct{} // what the user watches, by the library: as Unwatch asks
}

type watchedPath struct {
	op   int32
	path string
}

// Watching makes reads of a path (OpGetData, OpExists or OpChildren) set a watch until done is called.
// Another read of the same path that is sent meanwhile sets the same watch, which is harmless: a server
// has one watch of each kind for a path and a link.
func (p *Pin) Watching(op int32, path string) (done func()) {
	w, read := &p.watched, watchedPath{op, path}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reads == nil {
		w.reads = make(map[watchedPath]int)
	}
	w.reads[read]++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.reads[read]--; w.reads[read] == 0 {
			delete(w.reads, read)
		}
	}
}

// What a watch is on, as servers number it.
const (
	OnChildren = 1
	OnNode     = 2 // its data, or its existence
)

// The client library knows no request to remove a watch. So the link makes one of a sync, whose path nobody
// else asks for while the call lasts.
var unwatchMarks = map[byte]string{OnChildren: "/unwatch-children", OnNode: "/unwatch-node"}

// Unwatch makes a sync of ask a request to remove a path's watch, until done is called.
func (p *Pin) Unwatch(on byte, path string) (ask string, done func()) {
	ask = path + unwatchMarks[on]
	return ask, p.Watching(OpUnwatch, ask)
}

// unwatch returns the request for a watch's removal, as it is sent.
func (l *Link) unwatch(p []byte, path string) []byte {
	for on, mark := range unwatchMarks {
		node, is := strings.CutSuffix(path, mark)
		if !is {
			continue
		}
		if l.byUser(path) {
			break // the server has one watch for both
		}
		return l.other(p, OpUnwatch, node, 0, 0, 0, on)
	}
	return p
}

// usersRead notes that the request that is being sent sets a watch of the user.
func (l *Link) usersRead(p []byte, op int32, path string) {
	on := byte(OnNode)
	if op == OpChildren {
		on = OnChildren
	}
	l.noted(p, func(f *sentFrame) { f.user = path + unwatchMarks[on] })
}

// noteUser notes what the user watches: the reply to a request for that has come.
func (w *watched) noteUser(ask string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.users == nil {
		w.users = make(map[string]struct{})
	}
	w.users[ask] = struct{}{}
}

// Fired notes that the server has fired a path's watch, and so has forgotten it. It must be called before the
// library reads what follows the event: a later reply may be to a request that has set the watch again.
func (p *Pin) Fired(on byte, path string) {
	w := &p.watched
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.users) > 0 {
		delete(w.users, path+unwatchMarks[on])
	}
}

// byUser reports whether the user has a watch, or a request for one is on its way.
func (l *Link) byUser(ask string) bool {
	l.mu.Lock() // see take
	defer l.mu.Unlock()
	if slices.ContainsFunc(l.outstanding, func(f sentFrame) bool { return f.user == ask }) {
		return true
	}
	w := &l.pin.watched
	w.mu.Lock()
	defer w.mu.Unlock()
	_, is := w.users[ask]
	return is
}

// noted changes what is noted of the request that is being sent. A server that replies to no request may have
// caused its removal.
func (l *Link) noted(p []byte, change func(*sentFrame)) {
	xid := int32(binary.BigEndian.Uint32(p[4:]))
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := len(l.outstanding) - 1; i >= 0 && l.outstanding[i].xid == xid {
		change(&l.outstanding[i])
	}
}

func (w *watched) has(op int32, path string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reads[watchedPath{op, path}] > 0
}
