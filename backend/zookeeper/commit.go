package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/go-zookeeper/zk"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
	"github.com/elector-go/elector/backend/zookeeper/internal/wire"
)

const (
	flagEphemeral = zk.FlagEphemeral
	flagQueued    = zk.FlagEphemeral | zk.FlagSequence
	anyVersion    = -1
	statSize      = 128 // and more than a reply has beside a value
)

// A commit is one call of Commit, shared by all its attempts.
type commit struct {
	s      *session
	guards []backend.Condition
	ops    []backend.Op
	nonces []string        // one per op that leaves a trace: they distinguish this commit's entries from all others
	raised map[string]bool // paths whose version an op raises, before or after

	deep   bool // ancestors may be missing
	reread bool // proofs must be read again

	gen   uint64      // the link of this attempt
	began uint64      // the newest zxid seen before the first attempt
	doubt *flight     // an earlier attempt that may have been applied
	broke atomic.Bool // whether a link broke during an attempt: see expectLate
	tries tries       // attempts that were refused, or broke their links
	wrong int         // how many were refused because of outdated knowledge

	release func() // see reserve
}

// Commit implements backend.Driver: one multi, in one round trip if nothing must be learned first. See
// compile for its parts and resolve for lost replies.
func (s *session) Commit(ctx context.Context, guards []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
	c := &commit{s: s, guards: guards, ops: ops}
	if err := c.prepare(); err != nil || len(guards)+len(ops) == 0 {
		return nil, err
	}
	if err := c.reserve(); err != nil {
		return nil, err
	}
	defer func() { c.release() }()
	give, err := s.TakeTurn(ctx, s.TTL(), ops)
	if err != nil {
		return nil, err
	}
	defer give()
	made, err := c.run(ctx)
	if err == nil {
		err = c.beyond(ctx, made)
	}
	if err != nil {
		made = nil
	}
	c.expectLate()
	return made, err
}

// prepare checks the ops, and names the entries that they will leave.
func (c *commit) prepare() error {
	c.nonces = make([]string, len(c.ops))
	for i, op := range c.ops {
		if most := c.s.cfg.MaxResponse; most > 0 && len(op.Value)+statSize > most {
			return fmt.Errorf("%w: a value of %d bytes for %s could not be read again: an answer has at most %d (Config.MaxResponse)",
				backend.ErrTooLarge, len(op.Value), op.Key, most)
		}
		if leavesTrace(op) {
			c.nonces[i] = fmt.Sprintf("%016x", driver.NewNonce())
		}
		switch op.Kind {
		case backend.OpCreateEphemeral:
			c.deep = c.deep || c.makesAbove(i)
		case backend.OpCompareAndSet, backend.OpUpdate:
			if op.Kind == backend.OpUpdate || op.Version > 0 {
				note(&c.raised, c.s.path(op.Key), true)
			}
		}
	}
	return nil
}

// reserve makes room for what the commit makes among the session's entries. The transaction that ends the session, of
// whatever kind its end is, has the paths of all. A server reads one of twice jute.maxbuffer. One that is longer goes
// into the log all the same, and then no server can start, nor follow another.
func (c *commit) reserve() error {
	s, paths := c.s, 0
	for i, op := range c.ops {
		switch length := len(s.path(op.Key)); op.Kind {
		case backend.OpCreateEphemeral:
			paths += pathBytes(length)
		case backend.OpEnqueue:
			paths += pathBytes(length + len("/"+namePrefix(s.ID(), c.nonces[i])+"0123456789"))
		}
	}
	most := 2*s.cfg.MaxRequest - statSize
	if c.release = s.learned.reserve(paths, most); c.release != nil {
		return nil
	}
	return fmt.Errorf("%w: servers could not end a session whose entries have paths of more than %d bytes, twice their jute.maxbuffer "+
		"(Config.MaxRequest): use another session, or another backend.Share, for the next elections", backend.ErrTooLarge, most)
}

// makesAbove reports whether a CompareAndSet may create the parent of a later CreateEphemeral as its
// own ancestor: the parent is looked up before the commit is sent.
func (c *commit) makesAbove(i int) bool {
	dir := strings.TrimSuffix(backend.Parent(c.s.path(c.ops[i].Key)), "/") + "/" // the chroot is one, too
	return slices.ContainsFunc(c.ops[:i], func(op backend.Op) bool {
		return op.Kind == backend.OpCompareAndSet && op.Version == 0 && strings.HasPrefix(c.s.path(op.Key), dir)
	})
}

// A flight is a pending multi.
type flight struct {
	m       *multi
	gen     uint64 // the link it was sent on, or an earlier one
	done    chan struct{}
	results []zk.MultiResponse // read only after done
	err     error
}

func (c *commit) send(m *multi, gen uint64) (*flight, error) {
	s := c.s
	if !s.Begin() {
		return nil, s.LostError()
	}
	if c.began == 0 {
		c.began = s.pin.Newest()
	}
	f := &flight{m: m, gen: gen, done: make(chan struct{})}
	go func() {
		defer s.Done()
		if f.results, f.err = s.request(m, gen); f.unclear() {
			// There was a reply, so no later link is needed to look for it.
			f.gen, f.err = 0, fmt.Errorf("%w: %w", errUnclear, f.err)
		} else if transient(f.err) && !errors.Is(f.err, zk.ErrNoServer) {
			c.broke.Store(true)
		}
		if f.err == nil {
			s.hosts.works()
		}
		s.leave(gen, f.err)
		close(f.done)
	}()
	return f, nil
}

// request sends a multi, or its only request by itself: the server does that in less time. It sends nothing once the
// multi's link is over: the next server may have another history than the one that the multi was compiled from.
func (s *session) request(m *multi, gen uint64) ([]zk.MultiResponse, error) {
	if w := m.single(gen); w != nil {
		return s.requestSingle(w)
	}
	s.makeRoom(m.size())
	if !s.on(gen) {
		return nil, zk.ErrNoServer // never sent
	}
	if len(m.parts) == 1 {
		if r, is := m.parts[0].request.(*zk.CreateRequest); is {
			return s.create(r)
		}
	}
	return s.conn.Multi(m.requests()...)
}

// create does a create by itself, which tells the zxid.
func (s *session) create(r *zk.CreateRequest) ([]zk.MultiResponse, error) {
	ask, done := s.pin.Telling(r.Path)
	made, err := s.conn.Create(ask, r.Data, r.Flags, r.Acl)
	if s.Ctx.Err() == nil { // else the client library may still send it
		done()
	}
	path, zxid := wire.Created(made)
	return []zk.MultiResponse{{String: path, Stat: &zk.Stat{Mzxid: zxid}, Error: err}}, err
}

// run repeats attempts until there is an outcome.
func (c *commit) run(ctx context.Context) ([]backend.Entry, error) {
	for {
		made, done, err := c.attempt(ctx)
		if err != nil && c.doubt != nil && !errors.Is(err, backend.ErrIndeterminate) {
			err = c.abandon(c.doubt, fmt.Errorf("the reply to an earlier attempt was lost; now: %w", err))
		}
		if done || err != nil {
			return made, err
		}
	}
}

// attempt sends the commit once, and reports whether there is an outcome.
func (c *commit) attempt(ctx context.Context) (made []backend.Entry, done bool, err error) {
	s := c.s
	if c.gen, err = s.awaitLive(ctx, 0); err != nil {
		return nil, false, err
	}
	m, err := c.compile(ctx)
	if err != nil {
		return nil, false, err
	}
	f, err := c.send(m, c.gen)
	if err != nil {
		return nil, false, err
	}
	select {
	case <-f.done:
	case <-ctx.Done():
		return nil, false, c.abandon(f, driver.ContextError(ctx))
	case <-s.Ctx.Done():
		return nil, false, c.abandon(f, s.LostError())
	}
	switch {
	case f.err == nil:
		made = c.made(f)
		for i, op := range c.ops {
			if op.Ephemeral() {
				s.global.Store(true)
				s.locals.Store(0)
				s.learned.addOwn(made[i], f.gen)
			}
		}
		return made, true, nil
	case errors.Is(f.err, zk.ErrNoServer):
		return nil, false, nil // never sent
	case f.refusedPart() >= 0 && errors.Is(f.refusal(), zk.ErrSessionExpired):
		if err := s.disowned(); err != nil {
			return nil, false, err
		}
	case !transient(f.err):
		if why := f.refusal(); !mean(why).Is(driver.Final) {
			return nil, false, c.again(ctx, why)
		}
		return nil, false, c.relearn(ctx, f)
	}
	if made, done, err = c.resolve(ctx, f); err != nil {
		err = c.abandon(f, err)
	}
	if err == nil && !done {
		err = c.again(ctx, f.err)
	}
	return made, done, err
}

// relearn handles a refusal, and returns nil if the commit must be tried again, with what it has
// learned. The first retries are immediate: somebody else has written meanwhile. Later ones follow
// pauses: others write all the time, or a server contradicts itself.
func (c *commit) relearn(ctx context.Context, f *flight) error {
	if err := c.refused(ctx, f); err != nil {
		return err
	}
	if c.wrong++; c.wrong <= driver.Fewest || c.tries.again(ctx, c.s, f.refusal()) {
		return nil
	}
	return fmt.Errorf("%w: others write there all the time, or the servers contradict themselves: %w", backend.ErrUnavailable, f.refusal())
}

// again pauses, and returns nil if a commit that was not done must be tried again. It also gives up one
// that breaks its link each time: servers do that with a request that is too long.
func (c *commit) again(ctx context.Context, err error) error {
	broke := transient(err) && !errors.Is(err, errUnclear)
	switch {
	case (broke || passing(err)) && c.tries.again(ctx, c.s, err):
		return nil
	case broke:
		return fmt.Errorf("%w: each link has broken on which it was sent; is the servers' jute.maxbuffer less than Config.MaxRequest (%d bytes)?: %w",
			backend.ErrUnavailable, c.s.cfg.MaxRequest, err)
	}
	return readError(c.s.explain(err))
}

// refusedPart returns the first of a multi's parts that has an error, or -1. Those after it are
// reported as rolled back.
func (f *flight) refusedPart() int {
	return slices.IndexFunc(f.results, func(r zk.MultiResponse) bool { return r.Error != nil })
}

// refusal returns the error of that part, or of the multi.
func (f *flight) refusal() error {
	if at := f.refusedPart(); at >= 0 {
		return f.results[at].Error
	}
	return f.err
}

// unclear reports whether the reply leaves open whether the commit was done. A reply with the error of
// a multi's part does not: the multi was not done.
func (f *flight) unclear() bool {
	if f.err == nil || transient(f.err) {
		return false
	}
	return mean(f.refusal()).Is(driver.Unknown) && (len(f.results) == 0 || len(f.m.parts) == 1)
}

// abandon gives up on a multi that may still be, or have been, applied. In the background it removes
// entries that the multi may have made and nobody knows of. Later commits on its keys wait for its
// reply, or the end of its link, as it may not have been sent yet. Requests after that are applied
// after it, or it is never applied: see resolve.
func (c *commit) abandon(f *flight, err error) error {
	s := c.s
	if slices.ContainsFunc(c.ops, backend.Op.Ephemeral) {
		release := c.release
		c.release = func() {} // not before they are gone
		return s.Abandon(c.ops, err, func(ctx context.Context) error {
			err := c.undo(ctx, f)
			if err == nil {
				release()
			}
			return err
		})
	}
	settled := s.Doubt(c.ops)
	s.Run(func() { // else all its entries go with the session
		<-f.done
		settled()
	})
	return driver.Indeterminate(err)
}

// undo removes the ephemeral entries of an abandoned multi, once it is known whether there are any.
func (c *commit) undo(ctx context.Context, f *flight) error {
	select {
	case <-f.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	var made []backend.Entry
	switch {
	case f.err == nil:
		made = c.made(f)
	case transient(f.err) && !errors.Is(f.err, zk.ErrNoServer):
		var err error
		if made, err = c.left(ctx, f); err != nil {
			return err
		}
	}
	for i, e := range made {
		if !c.ops[i].Ephemeral() || !e.Exists() {
			continue
		}
		if err := c.s.drop(ctx, e); err != nil {
			return err
		}
	}
	c.expectLate()
	return nil
}

// made returns the outcome of a multi that was applied.
func (c *commit) made(f *flight) []backend.Entry {
	s, m := c.s, f.m
	entries := make([]backend.Entry, len(c.ops))
	var zxid uint64
	if m.stat >= 0 && m.stat < len(f.results) && f.results[m.stat].Stat != nil {
		zxid = uint64(f.results[m.stat].Stat.Mzxid)
	}
	for i, r := range f.results {
		if i >= len(m.parts) || m.parts[i].ref.op < 0 {
			continue
		}
		ref := m.parts[i].ref
		op := c.ops[ref.op]
		e := backend.Entry{Key: op.Key, Value: op.Value}
		switch {
		case ref.role == roleBump:
			// The parent's version right after the creation proves that nothing has been created there
			// since.
			if r.Stat != nil {
				s.learned.proofs.Put(op.Key, proof{rev: uint64(r.Stat.Mzxid), version: r.Stat.Version, gen: f.gen})
			}
			continue
		case op.Ephemeral():
			e.Rev, e.Version, e.Session = zxid, 1, s.ID()
			if op.Kind == backend.OpEnqueue && strings.HasPrefix(r.String, s.path(op.Key)+"/") {
				e.Key = s.key(r.String)
			}
		case op.Kind == backend.OpCompareAndSet && op.Version == 0:
			e.Rev, e.Version = zxid, 1
			s.learned.setDir(s.path(op.Key), len(op.Value) == 0)
		case op.Kind == backend.OpCompareAndSet || op.Kind == backend.OpUpdate:
			if r.Stat != nil {
				e = s.entry(s.path(op.Key), node{op.Value, r.Stat})
			}
			s.learned.setDir(s.path(op.Key), false)
		case op.Kind == backend.OpDelete:
			e = backend.Entry{Key: op.Key}
			s.gone(op.Key, op.Rev)
		}
		entries[ref.op] = e
	}
	for i, op := range c.ops {
		if op.Kind == backend.OpCreateEphemeral && m.made[backend.Parent(s.path(op.Key))] {
			s.learned.proofs.Put(op.Key, proof{rev: entries[i].Rev, version: 0, gen: f.gen})
		}
	}
	return entries
}

// drop deletes an incarnation and returns nil once it is known to be gone.
func (s *session) drop(ctx context.Context, e backend.Entry) error {
	c := &commit{s: s, ops: []backend.Op{backend.Delete(e)}} // it needs no turn
	_, err := c.run(ctx)
	if errors.Is(err, backend.ErrNoEntry) {
		err = nil
	}
	if err == nil { // no commit may have reported it
		s.ended(e.Key, e.Rev)
	}
	return err
}
