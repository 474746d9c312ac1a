package zookeeper

import (
	"sync"

	"github.com/go-zookeeper/zk"
)

// watched are the reads on their way that are to set a watch. The client library's own calls
// for that keep a channel in it for each watch on each link, until the watch fires. These are
// its plain reads, in which the link sets the mark. Another read of the same path that goes
// out meanwhile sets the same watch, which does no harm: a server has one of each kind for a
// path and a link.
type watched struct {
	mu    sync.Mutex
	reads map[watchedPath]int // how many calls there are
}

type watchedPath struct {
	op   int32
	path string
}

// mark has reads of a path set a watch until unmark is called.
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

// existsW looks for a node and sets a watch on it, whether or not it is there.
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
