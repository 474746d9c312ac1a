package etcdtest

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// HoldWakeups holds the servers' reports of changes back from the process, while all else continues,
// until release is called.
func (p *Process) HoldWakeups() (release func()) {
	p.wakeups.add(1)
	return sync.OnceFunc(func() { p.wakeups.add(-1) })
}

// gate is shut while somebody holds it.
type gate struct {
	mu      sync.Mutex // the streams', too
	changed *sync.Cond // the number of holders, or what a stream has received
	holders int
}

func (g *gate) add(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holders += n
	g.changed.Broadcast()
}

// watchStream is a stream of watches. While the gate is shut, only the replies to requests for new
// watches come through. What is held is lost when the stream ends, as if it had still been in transit.
type watchStream struct {
	grpc.ClientStream
	gate *gate
	made *atomic.Int64
	pump sync.Once

	// Guarded by gate.mu.
	queue []*etcdserverpb.WatchResponse
	err   error
}

// receive runs until the stream ends.
func (s *watchStream) receive() {
	for {
		m := new(etcdserverpb.WatchResponse)
		err := s.ClientStream.RecvMsg(m)
		s.gate.mu.Lock()
		if err == nil {
			s.queue = append(s.queue, m)
		}
		s.err = err
		s.gate.changed.Broadcast()
		s.gate.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// RecvMsg has one caller at a time, as grpc.ClientStream's has.
func (s *watchStream) RecvMsg(m any) error {
	into, ok := m.(*etcdserverpb.WatchResponse)
	if !ok {
		return fmt.Errorf("etcdtest: a watch stream does not give a %T", m)
	}
	s.pump.Do(func() { go s.receive() })
	s.gate.mu.Lock()
	defer s.gate.mu.Unlock()
	for {
		may := func(m *etcdserverpb.WatchResponse) bool { return s.gate.holders == 0 || m.Created }
		if i := slices.IndexFunc(s.queue, may); i >= 0 { // the first that may pass
			proto.Merge(into, s.queue[i])
			s.queue = slices.Delete(s.queue, i, i+1)
			if into.Created && !into.Canceled {
				s.made.Add(1)
			}
			return nil
		}
		if s.err != nil {
			return s.err
		}
		s.gate.changed.Wait()
	}
}
