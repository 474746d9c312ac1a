package explore

import (
	"context"
	"fmt"
	"slices"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
)

// process is the backend of one candidate: memory's, with each operation parked.
type process struct {
	*memory.Client
	by *candidate
}

// Open implements backend.Backend.
func (p *process) Open(ctx context.Context, o backend.OpenOptions) (*backend.Session, error) {
	w := p.by.world
	c := p.by.call(callOpen, "open a session")
	w.park(ctx, c)
	s, err := p.Client.Open(ctx, o)
	if err != nil {
		w.note(c, err)
		return nil, err
	}
	w.mu.Lock()
	p.by.opened++
	w.owners[s.ID()] = owner{p.by, p.by.opened}
	p.by.session, p.by.sessions = s, append(p.by.sessions, s)
	w.mu.Unlock()
	w.note(c, nil)
	return s.Around(backend.Layer{Call: (&session{s, p.by}).call}), nil
}

// session parks calls that have an effect, or read. Each of them is then one step of memory's.
type session struct {
	*backend.Session
	by *candidate
}

func (s *session) call(ctx context.Context, q *backend.Call, next func(context.Context) error) error {
	switch q.Kind {
	case backend.CallAwait:
		return s.await(ctx, q, next)
	case backend.CallAwaitList:
		return s.awaitList(ctx, q, next)
	case backend.CallClose:
		return next(ctx)
	}
	c, w := s.step(q), s.by.world
	w.park(ctx, c)
	err := next(ctx)
	switch q.Kind {
	case backend.CallList, backend.CallChildren: // no candidate calls the latter
		w.noteList(c, err, q.Listing)
	case backend.CallCommit:
		w.note(c, err, q.Entries...)
	case backend.CallDiscard:
		w.note(c, err)
	default:
		w.note(c, err, q.Found)
	}
	return err
}

// step returns the call for an operation that does not wait.
func (s *session) step(q *backend.Call) (c *call) {
	switch q.Kind {
	case backend.CallGet, backend.CallSurvey: // there are no foreign entries
		c = s.by.call(callGet, "get "+q.Key)
		c.key = q.Key
	case backend.CallList:
		c = s.by.call(callList, "list "+q.Key)
	case backend.CallPredecessor:
		c = s.by.call(callPredecessor, "look for the predecessor")
	case backend.CallDiscard:
		c = s.by.call(callDrop, "discard its entry")
	case backend.CallCommit:
		kind, text, said := byte(callGuards), "check conditions", ""
		for i, op := range q.Ops {
			said += says(backend.Entry{Value: op.Value})
			if i == 0 || op.Ephemeral() {
				kind, text = opCalls[op.Kind], fmt.Sprintf("%v %s", op.Kind, op.Key)
			}
		}
		c = s.by.call(kind, text)
		c.says = said
	}
	c.session = s.Session
	return c
}

// await subscribes at once where it must wait, as that commutes with everything: the known entries were
// chosen before, so no change is missed. The read that ends it is the step that can be late.
func (s *session) await(ctx context.Context, q *backend.Call, next func(context.Context) error) error {
	w := s.by.world
	c := s.by.call(callAwait, "notice a change")
	c.session = s.Session
	for {
		if s.behind() || !w.differ(q.KnownEntries) {
			if err := next(ctx); err != nil {
				w.note(c, err)
				return err
			}
		}
		w.park(ctx, c)
		if s.behind() || w.differ(q.KnownEntries) || ctx.Err() != nil || s.State() != backend.Live {
			err := next(ctx)
			w.note(c, err, q.Entries...)
			return err
		}
		// It has changed back meanwhile, so there is nothing to report.
		w.landed(c)
	}
}

func (s *session) awaitList(ctx context.Context, q *backend.Call, next func(context.Context) error) error {
	w := s.by.world
	c := s.by.call(callAwaitList, "notice a change of the list")
	c.session = s.Session
	err := next(ctx)
	if err != nil {
		w.note(c, err)
		return err
	}
	w.park(ctx, c)
	err = next(ctx) // a listing's Rev only rises, so it still differs
	w.noteList(c, err, q.Listing)
	return err
}

// behind reports whether the session reads an older state. It reads the same when asked again.
func (s *session) behind() bool { return s.by.world.svc.Behind(s.ID()) }

func (w *world) differ(known []backend.Entry) bool {
	return slices.ContainsFunc(known, func(e backend.Entry) bool { return !w.svc.Entry(e.Key).Same(e) })
}

// landed removes a call that has no result from those in flight.
func (w *world) landed(c *call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c.land()
}
