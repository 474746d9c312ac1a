package consul

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector/backend/driver"
)

// slotDir is where sessions keep the keys that show which of their commits were done.
const slotDir = ".elector/"

// A slot is one of the session's own keys, .elector/<session>/<number>, that each commit also
// writes, in the same transaction: with the commit's random number as its flags, and only if it
// is at the index that the commit before has left. One commit at a time has the slot. So, when
// a reply was lost:
//
//   - The slot has the commit's number: it was done, at the index of the slot.
//   - The slot is as it was: it was not done yet. To make sure that it never is, the slot is written
//     with another number: a late transaction finds another index, and is rolled back.
//   - There is no slot: the session is over, for its keys went with it.
//
// Nobody else writes to it, so it does not matter who has since overwritten or deleted what the
// commit made. The slot also binds commits to the session: without it, a commit that makes nothing
// ephemeral would be done after the session's end.
//
// A restored backup takes back what the session has written since, the slots included. So each look compares
// the slots with what was last written there, and a session whose slots are older is lost. When something is
// removed without a slot, and the session learns of it, it writes to a slot: see mark.
type slot struct {
	key   string // Consul's
	index uint64 // of its last write; 0: it was not made yet
}

// slots are the free slots. There are as many slots as there were commits at once.
type slots struct {
	mu    sync.Mutex
	free  []*slot
	made  int
	found uint64 // the newest index that a look has found: if that is there, so is all that was written before
}

func (s *session) takeSlot() *slot {
	p := &s.slots
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		t := p.free[n-1]
		p.free = p.free[:n-1]
		return t
	}
	t := &slot{key: slotKey(s.ID(), p.made)}
	p.made++
	return t
}

func slotKey(session string, number int) string {
	return fmt.Sprintf("%s%s/%d", slotDir, session, number)
}

func (s *session) giveSlot(t *slot) {
	s.slots.mu.Lock()
	defer s.slots.mu.Unlock()
	s.slots.free = append(s.slots.free, t)
}

// written returns copies of the free slots that show whether the session's last writes are there, and
// reports whether no commit has a slot.
func (p *slots) written() (some []slot, all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.free {
		if t.index > 0 && t.index >= p.found {
			some = append(some, *t)
		}
	}
	return some, len(p.free) == p.made
}

// mark writes a slot: if that write is there, so is all that the session knows by now. It is brief:
// what is not answered continues in the background.
func (s *session) mark(ctx context.Context) {
	ctx, cancel := limited(ctx, s.lease.every()/4)
	defer cancel()
	t, nonce := s.takeSlot(), driver.NewNonce()
	response, err := s.txnWrite(ctx, t.write(s.ID(), nonce))
	switch {
	case err == nil && len(response.Errors) == 0 && t.written(response) != 0:
		t.index = t.written(response)
		s.giveSlot(t)
	case err == nil && len(response.Errors) > 0 && denied(response.Errors[0].What):
		s.giveSlot(t) // it was not written, and will not be
	default:
		s.Reaper.Reap(func(ctx context.Context) error {
			_, err := s.settle(ctx, t, nonce)
			if err == nil {
				s.giveSlot(t)
			}
			return err
		})
	}
}

// stands reports whether a slot is free and was not written to since it was copied.
func (p *slots) stands(was slot) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.free, func(t *slot) bool { return *t == was })
}

// find notes that a look has found these.
func (p *slots) find(all []slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range all {
		p.found = max(p.found, t.index)
	}
}

// write returns the operations that write the slot, which come first in a transaction.
func (t *slot) write(session string, nonce uint64) api.TxnOps {
	if t.index != 0 {
		return api.TxnOps{{KV: &api.KVTxnOp{Verb: api.KVCAS, Key: t.key, Index: t.index, Flags: nonce}}}
	}
	return api.TxnOps{
		{KV: &api.KVTxnOp{Verb: api.KVCheckNotExists, Key: t.key}},
		{KV: &api.KVTxnOp{Verb: api.KVLock, Key: t.key, Session: session, Flags: nonce}},
	}
}

// lastWord is how long a write that is pending when the session ends may take to be answered. Most
// often the reply is a refusal, as the session had ended: better than not to know.
const lastWord = 200 * time.Millisecond

// txnWrite runs a transaction once. A rollback is a reply, too.
func (s *session) txnWrite(ctx context.Context, ops api.TxnOps) (*api.TxnResponse, error) {
	return once(ctx, s, lastWord, func(ctx context.Context) (*api.TxnResponse, error) {
		var response api.TxnResponse
		// The client library's own function for transactions drops the status.
		_, err := s.b.client.Raw().Write("/v1/txn", ops, &response, new(api.WriteOptions).WithContext(ctx))
		if code(err) == http.StatusConflict {
			return rolledBack(err)
		}
		switch {
		case err != nil:
			return nil, err
		case len(response.Results)+len(response.Errors) == 0:
			return nil, errMute // each has a condition, or a slot, whose result it must report
		}
		return whole(&response)
	})
}

// written returns the index at which a transaction has written the slot, or 0.
func (t *slot) written(r *api.TxnResponse) uint64 {
	for _, result := range r.Results {
		if result.KV != nil && result.KV.Key == t.key {
			return result.KV.ModifyIndex
		}
	}
	return 0
}
