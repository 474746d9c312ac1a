package zookeeper

import (
	"sync"

	"github.com/go-zookeeper/zk"
)

// watched are the pending reads that must set a watch. The client library's own calls for that keep a
// channel for each watch on each link, until the watch fires. These are its plain reads, in which the
// link sets the mark. Another read of the same path that is sent meanwhile sets the same watch, which
// is harmless: a server has one watch of each kind for a path and a link.
type watched struct {
	mu    sync.Mutex
	reads map[watchedPath]int // the number of calls
}

type watchedPath struct {
	op   int32
	path string
}

// mark makes reads of a path set a watch until unmark is called.
func (w *watched) mark(p watchedPath) (unmark func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reads == nil {
		w.reads = make(map[watchedPath]int)
	}
	w.reads[p]++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.reads[p]--; w.reads[p] == 0 {
			delete(w.reads, p)
		}
	}
}

func (w *watched) has(p watchedPath) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reads[p] > 0
}

// getW reads a node and sets a watch on it, if it is there.
func (s *session) getW(path string) ([]byte, *zk.Stat, error) {
	defer s.pin.watched.mark(watchedPath{opGetData, path})()
	return s.conn.Get(path)
}

// existsW looks for a node and sets a watch on it, whether or not it exists.
func (s *session) existsW(path string) (bool, error) {
	defer s.pin.watched.mark(watchedPath{opExists, path})()
	exists, _, err := s.conn.Exists(path)
	return exists, err
}

// childrenW lists a node's children and sets a watch on the list.
func (s *session) childrenW(path string) ([]string, *zk.Stat, error) {
	defer s.pin.watched.mark(watchedPath{opChildren, path})()
	return s.conn.Children(path)
}
