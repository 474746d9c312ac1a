package wire

import "sync"

// watched are the pending reads that must set a watch. The client library's own calls for that make a
// channel for each watch, on each link. Somebody would have to receive from it, and it cannot be given
// back before the watch fires. So these are its plain reads, in which the link sets the mark.
type watched struct {
	mu    sync.Mutex
	reads map[watchedPath]int // the number of calls
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

func (w *watched) has(op int32, path string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reads[watchedPath{op, path}] > 0
}
