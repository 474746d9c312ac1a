package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/elector-go/elector/backend"
)

// A request is one commit on its way. The service notes in it what it did, under svc.mu: that is the nonce
// by which a lost reply is looked up.
type request struct {
	arrived bool // it is no longer on its way
	done    bool
	out     []backend.Entry
	key     string // what err is about
	err     error
	// abandoned says that its caller has given up; it may still be on its way.
	abandoned bool
	// overtaken says that a later request has written to one of its keys meanwhile.
	overtaken bool
}

// A doubt is a request that was given up on its way.
type doubt struct {
	req *request
	ops []backend.Op
}

// Commit implements backend.Driver. While the session is suspended it sends nothing.
func (n *session) Commit(ctx context.Context, guards []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
	key := ""
	switch {
	case len(ops) > 0:
		key = ops[0].Key
	case len(guards) > 0:
		key = guards[0].Entry.Key
	}
	if err := n.svc.fits(guards, ops); err != nil {
		return nil, err
	}
	var req request
	for sent, done := false, false; ; sent = true {
		step := Step{Kind: StepCommit, Key: key, Ops: ops}
		if done {
			step.Kind = StepResolve
		}
		f, err := n.enterWith(ctx, step)
		if err != nil {
			if !sent {
				return nil, err
			}
			return nil, n.giveUp(&req, ops, err)
		}
		if done {
			n.resolve(&req, ops)
			n.svc.mu.Unlock()
			break
		}
		n.svc.stats.Commits++
		if n.delays != nil || f.kind == delayRequest {
			// It may arrive long after the caller has returned.
			guards = slices.Clone(guards)
		}
		req.arrived = false
		answer := n.send(f.underWay(), func() bool { return n.serve(&req, f, guards, ops) })
		n.svc.mu.Unlock()
		if answer.comes(ctx, n.lost) {
			break
		}
		if f.kind == delayReply {
			_ = n.sleep(ctx, f.delay) // enter returns what ended it
		} else {
			n.reconnect()
		}
		n.svc.mu.Lock()
		done = req.done
		n.svc.mu.Unlock()
	}
	if req.err != nil && req.key != key {
		return nil, fmt.Errorf("of %s: %w", req.key, req.err)
	}
	return req.out, req.err
}

// enterWith is enter for a commit, and returns the fault that applies to it.
func (n *session) enterWith(ctx context.Context, step Step) (f fault, err error) {
	for still := false; !still; {
		if err := n.enter(ctx, step); err != nil || step.Kind == StepResolve {
			return fault{}, err
		}
		if f, still = n.fault(step.Ops); !still {
			n.svc.mu.Unlock()
		}
	}
	return f, nil
}

// fits checks the limits of one commit.
func (s *Service) fits(guards []backend.Condition, ops []backend.Op) error {
	count, size := len(guards)+len(ops), 0
	for _, g := range guards {
		size += len(g.Entry.Key)
	}
	for _, op := range ops {
		size += len(op.Key) + len(op.Value)
	}
	switch most := s.opts; {
	case most.MaxOps > 0 && count > most.MaxOps:
		return fmt.Errorf("%w: %d guards and ops, at most %d (Options.MaxOps)", backend.ErrTooLarge, count, most.MaxOps)
	case most.MaxBytes > 0 && size > most.MaxBytes:
		return fmt.Errorf("%w: %d bytes of keys and values, at most %d (Options.MaxBytes)", backend.ErrTooLarge, size, most.MaxBytes)
	}
	return nil
}

// serve handles a request that arrives, with the service locked, and reports whether it is answered.
func (n *session) serve(req *request, f fault, guards []backend.Condition, ops []backend.Op) (answered bool) {
	req.arrived = true
	n.doubts = slices.DeleteFunc(n.doubts, func(d doubt) bool { return d.req == req })
	if n.client.down() || n.broken || n.unknown() || req.overtaken {
		return false
	}
	if f.kind != loseRequest {
		req.out, req.key, req.err = n.svc.commit(n, guards, ops)
		req.done = true
		n.catchUp() // refused or not: the current state decided
		if req.err == nil {
			n.overtake(ops)
		}
	}
	switch f.kind {
	case loseRequest, loseReply:
		n.broken = true
		n.suspend()
	case cutReply:
		n.client.suspend()
	}
	if req.abandoned { // nobody else tidies up, or restores the connection
		if req.done {
			n.tidy(req, ops)
		}
		n.restore()
	}
	return f.kind == 0 || f.kind == delayRequest
}

// overtake keeps abandoned requests that write to the same keys from being done when they arrive: rule 5.
func (n *session) overtake(ops []backend.Op) {
	n.doubts = slices.DeleteFunc(n.doubts, func(d doubt) bool {
		for _, op := range ops {
			d.req.overtaken = d.req.overtaken || Key(op.Key)(d.ops)
		}
		return d.req.overtaken
	})
}

// resolve takes back a reply that came too late: an entry that the commit created is gone already, and must
// not be returned as existing. The commit's other entries go, too: rule 6.
func (n *session) resolve(req *request, ops []backend.Op) {
	if req.err != nil {
		return
	}
	for i, op := range ops {
		if op.Ephemeral() && n.svc.lookup(req.out[i].Key).Rev != req.out[i].Rev {
			n.tidy(req, ops)
			req.key = req.out[i].Key
			req.err = fmt.Errorf("%w: it was done, and somebody has removed it since", backend.ErrIndeterminate)
			return
		}
	}
}

// reconnect restores a broken connection, if possible.
func (n *session) reconnect() {
	n.svc.mu.Lock()
	defer n.svc.mu.Unlock()
	n.restore()
}

// restore is reconnect with the service locked.
func (n *session) restore() {
	n.broken = false
	n.resume()
}

// giveUp leaves a request whose outcome the process could not learn. What it created is removed as soon as
// the session is in touch, so that it cannot stay behind unknown to anybody.
func (n *session) giveUp(req *request, ops []backend.Op, err error) error {
	n.svc.mu.Lock()
	defer n.svc.mu.Unlock()
	req.abandoned = true
	n.restore() // the request may have met a fault just now
	switch {
	case req.done:
		n.tidy(req, ops)
	case !req.arrived:
		n.doubts = append(n.doubts, doubt{req, ops})
	}
	return fmt.Errorf("%w: %w", backend.ErrIndeterminate, err)
}

// tidy removes what a request has created that nobody waits for any more.
func (n *session) tidy(req *request, ops []backend.Op) {
	if req.err != nil {
		return
	}
	for i, op := range ops {
		if op.Ephemeral() {
			n.discard(req.out[i])
		}
	}
}

// errNotOurs refuses a Discard of an entry that this session does not own.
var errNotOurs = errors.New("entry belongs to another session, or to none")

// Discard implements backend.Driver.
func (n *session) Discard(ctx context.Context, e backend.Entry) error {
	refused, err := ask(ctx, n, Step{Kind: StepDiscard, Key: e.Key}, func() error {
		n.svc.stats.Drops++
		n.catchUp()
		have := n.svc.nodes[e.Key]
		switch {
		case have == nil || !have.entry.Exists() || have.entry.Rev != e.Rev:
			return nil
		case have.owner != n:
			return fmt.Errorf("%w: %w", backend.ErrCondition, errNotOurs)
		}
		n.discard(e)
		return nil
	})
	if err != nil {
		n.svc.mu.Lock()
		defer n.svc.mu.Unlock()
		if n.now() == backend.Lost { // also if ctx has ended: there is nothing left to do
			return backend.ErrSessionLost
		}
		n.discard(e)
		return fmt.Errorf("not confirmed yet: %w", err)
	}
	if refused != nil {
		return refused
	}
	return nil
}
