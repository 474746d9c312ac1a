package zookeeper

import (
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/elector-go/elector/backend"
)

// Elections that share a session may all end, or have a leader to announce, at the same moment: see
// driver.Together. The server does a multi of a hundred deletes or writes in an eighth of the time of a hundred
// requests. But it does all of a multi or nothing: if one request is refused, each is sent by itself.

// mostTogether is how many requests go together: with more, a reply takes longer than others should wait.
const mostTogether = 128

// A single is the only request of a commit.
type single struct {
	request any    // a *zk.DeleteRequest or a *zk.SetDataRequest
	dir     string // the directory of its path
	size    int
	gen     uint64 // the link that it was made for
	result  zk.MultiResponse
	done    chan struct{} // closed when there is a result
}

// single returns the single of a multi, or nil if it is none.
func (m *multi) single(gen uint64) *single {
	if len(m.parts) != 1 {
		return nil
	}
	switch m.parts[0].request.(type) {
	case *zk.DeleteRequest, *zk.SetDataRequest:
		path, _ := m.parts[0].about()
		return &single{request: m.parts[0].request, dir: backend.Parent(path), size: m.size(), gen: gen, done: make(chan struct{})}
	}
	return nil
}

// requestSingle sends a single, with others that are ready.
func (s *session) requestSingle(w *single) ([]zk.MultiResponse, error) {
	s.singles.Do(w)
	select {
	case <-w.done:
	case <-s.Ctx.Done(): // it may still wait for others, and is not sent then
		return nil, zk.ErrClosing
	}
	return []zk.MultiResponse{w.result}, w.result.Error
}

// takeSingles takes what may go together. Of each directory that is one: the server reports the changes of a multi one
// by one, and those who watch several entries of a queue rely on their order.
func (s *session) takeSingles(waiting []*single) (batch, left []*single) {
	most := mostTogether
	if s.cfg.MaxResponse > 0 {
		most = min(most, s.cfg.MaxResponse/statSize)
	}
	dirs, size := make(map[string]bool), 0
	for i, w := range waiting {
		size += w.size
		switch {
		case len(batch) > 0 && (len(batch) >= most || size > s.cfg.MaxRequest):
			return batch, append(left, waiting[i:]...)
		case dirs[w.dir]:
			left = append(left, w)
		default:
			dirs[w.dir] = true
			batch = append(batch, w)
		}
	}
	return batch, left
}

func (s *session) sendSingles(batch []*single) {
	size := 0
	for _, w := range batch {
		size += w.size
	}
	s.makeRoom(size)
	batch = slices.DeleteFunc(batch, s.passed)
	switch {
	case len(batch) == 0:
	case len(batch) == 1:
		s.sendAlone(batch[0])
	case !s.sendTogether(batch):
		var all sync.WaitGroup
		for _, w := range batch {
			if !s.passed(w) {
				all.Go(func() { s.sendAlone(w) })
			}
		}
		all.Wait()
	}
}

// passed reports whether a single's link is over, and answers it then: see request.
func (s *session) passed(w *single) bool {
	if s.on(w.gen) {
		return false
	}
	w.result.Error = zk.ErrNoServer // never sent
	close(w.done)
	return true
}

// sendTogether reports whether there is a result: nothing was done if a request was refused.
func (s *session) sendTogether(batch []*single) bool {
	requests := make([]any, len(batch))
	for i, w := range batch {
		requests[i] = w.request
	}
	results, err := s.conn.Multi(requests...)
	if slices.ContainsFunc(results, func(r zk.MultiResponse) bool { return r.Error != nil }) {
		return false
	}
	if err == nil && len(results) != len(batch) {
		err = zk.ErrAPIError
	}
	for i, w := range batch {
		if w.result.Error = err; err == nil {
			w.result = results[i]
		}
		close(w.done)
	}
	return true
}

// sendAlone sends a single by itself: the server does that in less time than a multi of one (a tenth of a
// handover).
func (s *session) sendAlone(w *single) {
	switch r := w.request.(type) {
	case *zk.DeleteRequest:
		w.result.Error = s.conn.Delete(r.Path, r.Version)
	case *zk.SetDataRequest:
		w.result.Stat, w.result.Error = s.conn.Set(r.Path, r.Data, r.Version)
	}
	close(w.done)
}
