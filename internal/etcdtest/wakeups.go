package etcdtest

import (
	"fmt"
	"sync"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// HoldWakeups keeps what the servers say of changes from the process, while all
// else goes on, until release is called.
func (p *Process) HoldWakeups() (release func()) {
	p.wakeups.add(1)
	return sync.OnceFunc(func() { p.wakeups.add(-1) })
}

// gate is shut while somebody holds it.
type gate struct {
	mu      sync.Mutex
	holders int
	changed chan struct{} // closed and replaced with each change
}

func (g *gate) add(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holders += n
	close(g.changed)
	g.changed = make(chan struct{})
}

func (g *gate) state() (shut bool, changed <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.holders > 0, g.changed
}

// watchStream is a stream of watches. While the gate is shut, only the answers to
// requests for new watches come through. What is held is lost when the stream
// ends, as if it had still been on its way.
type watchStream struct {
	grpc.ClientStream
	gate *gate
	made *atomic.Int64
	pump sync.Once
	news chan struct{} // holds a token if the queue or err has changed

	mu    sync.Mutex
	queue []*etcdserverpb.WatchResponse
	err   error
}

// receive runs until the stream ends.
func (s *watchStream) receive() {
	for {
		m := new(etcdserverpb.WatchResponse)
		err := s.ClientStream.RecvMsg(m)
		s.mu.Lock()
		if err == nil {
			s.queue = append(s.queue, m)
		}
		s.err = err
		s.mu.Unlock()
		select {
		case s.news <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// RecvMsg has one caller at a time, as that of grpc.ClientStream.
func (s *watchStream) RecvMsg(m any) error {
	into, ok := m.(*etcdserverpb.WatchResponse)
	if !ok {
		return fmt.Errorf("etcdtest: a watch stream does not give a %T", m)
	}
	s.pump.Do(func() { go s.receive() })
	for {
		shut, changed := s.gate.state()
		next, err := s.next(shut)
		switch {
		case next != nil:
			proto.Merge(into, next)
			return nil
		case err != nil:
			return err
		}
		select {
		case <-s.news:
		case <-changed:
		}
	}
}

// next takes the first message that may pass.
func (s *watchStream) next(shut bool) (*etcdserverpb.WatchResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, m := range s.queue {
		if !shut || m.Created {
			s.queue = append(s.queue[:i:i], s.queue[i+1:]...)
			if m.Created && !m.Canceled {
				s.made.Add(1)
			}
			return m, nil
		}
	}
	return nil, s.err
}
