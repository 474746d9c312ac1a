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
	return backend.NewSession(&session{s, p.by}), nil
}

// session parks what has an effect, or reads. Each is one step of memory's then.
type session struct {
	*backend.Session
	by *candidate
}

func (s *session) call(kind byte, text string) *call {
	c := s.by.call(kind, text)
	c.session = s.Session
	return c
}

func (s *session) Get(ctx context.Context, key string) (backend.Entry, error) {
	c := s.call(callGet, "get "+key)
	c.reads = []string{key}
	s.by.world.park(ctx, c)
	e, err := s.Session.Get(ctx, key)
	s.by.world.note(c, err, e)
	return e, err
}

func (s *session) Survey(ctx context.Context, key string, known func(backend.Entry) string) (backend.Entry, []string, error) {
	c := s.call(callGet, "get "+key)
	c.reads = []string{key} // no strangers come
	s.by.world.park(ctx, c)
	e, strangers, err := s.Session.Survey(ctx, key, known)
	s.by.world.note(c, err, e)
	return e, strangers, err
}

func (s *session) List(ctx context.Context, dir string) (backend.Listing, error) {
	c := s.call(callList, "list "+dir)
	c.reads = []string{below(dir)}
	s.by.world.park(ctx, c)
	l, err := s.Session.List(ctx, dir)
	s.by.world.noteList(c, err, l)
	return l, err
}

func (s *session) Predecessor(ctx context.Context, e backend.Entry) (backend.Entry, error) {
	c := s.call(callPredecessor, "look for the predecessor")
	c.reads = []string{e.Key, older(backend.Parent(e.Key))}
	s.by.world.park(ctx, c)
	before, err := s.Session.Predecessor(ctx, e)
	s.by.world.note(c, err, before)
	return before, err
}

// Await subscribes at once where it has to wait, for that commutes with everything:
// known was chosen before, so no change is missed. The read that it ends with is the
// step that can be late.
func (s *session) Await(ctx context.Context, known ...backend.Entry) ([]backend.Entry, error) {
	w := s.by.world
	c := s.call(callAwait, "notice a change")
	for _, e := range known {
		c.reads = append(c.reads, e.Key)
	}
	for {
		if s.behind() || !w.differ(known) {
			if _, err := s.Session.Await(ctx, known...); err != nil {
				w.note(c, err)
				return nil, err
			}
		}
		w.park(ctx, c)
		if s.behind() || w.differ(known) || ctx.Err() != nil || s.Session.State() != backend.Live {
			now, err := s.Session.Await(ctx, known...)
			w.note(c, err, now...)
			return now, err
		}
		// It has changed back meanwhile, so there is nothing to tell.
		w.landed(c)
	}
}

// behind tells whether the session does not read what there is now. It still reads the same when it
// is asked again.
func (s *session) behind() bool { return s.by.world.svc.Behind(s.ID()) }

func (w *world) differ(known []backend.Entry) bool {
	return slices.ContainsFunc(known, func(e backend.Entry) bool { return !w.svc.Entry(e.Key).Same(e) })
}

// landed takes a call that has no result from those in flight.
func (w *world) landed(c *call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c.land()
}

func (s *session) AwaitList(ctx context.Context, known backend.Listing) (backend.Listing, error) {
	c := s.call(callAwaitList, "notice a change of the list")
	c.reads = []string{below(known.Dir)}
	l, err := s.Session.AwaitList(ctx, known)
	if err != nil {
		s.by.world.note(c, err)
		return l, err
	}
	s.by.world.park(ctx, c)
	l, err = s.Session.AwaitList(ctx, known) // a listing's Rev only rises, so it still differs
	s.by.world.noteList(c, err, l)
	return l, err
}

func (s *session) Commit(ctx context.Context, guards []backend.Guard, ops ...backend.Op) ([]backend.Entry, error) {
	kind, text, writes := byte(callGuards), "ask whether the guards hold", []string(nil)
	for i, op := range ops {
		is, keys := effect(op)
		writes = append(writes, keys...)
		if i == 0 || op.Ephemeral() {
			kind, text = is, fmt.Sprintf("%v %s", op.Kind, op.Key)
		}
	}
	c := s.call(kind, text)
	for _, g := range guards {
		c.reads = append(c.reads, g.Entry.Key)
	}
	c.reads, c.writes = append(c.reads, own), writes
	s.by.world.park(ctx, c)
	made, err := s.Session.Commit(ctx, guards, ops...)
	s.by.world.note(c, err, made...)
	return made, err
}

// effect is the letter of an op, and what it writes.
func effect(op backend.Op) (kind byte, writes []string) {
	switch op.Kind {
	case backend.OpCreate:
		return callCreate, []string{op.Key, created}
	case backend.OpEnqueue:
		return callEnqueue, []string{op.Key + "/", created}
	case backend.OpPut:
		return callPut, []string{op.Key}
	case backend.OpSet:
		return callSet, []string{op.Key}
	}
	return callDelete, []string{op.Key}
}

func (s *session) Drop(ctx context.Context, e backend.Entry) error {
	c := s.call(callDrop, "drop its entry")
	c.writes = []string{e.Key}
	s.by.world.park(ctx, c)
	err := s.Session.Drop(ctx, e)
	s.by.world.note(c, err)
	return err
}
