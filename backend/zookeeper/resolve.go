package zookeeper

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/elector-go/elector/backend"
)

// resolve finds out whether a multi whose reply was lost was applied, and if so returns what it made.
//
// It waits until the session is live on a later link, makes a quorum agree to a transaction on it, and
// reads. By then all requests of the old link that are ever applied have been applied, except for what late.go
// is about: see DESIGN.md, "Lost replies".
//
// But others may have written since. So resolve asks what each op can tell, and combines the answers,
// as a multi is applied as a whole or not at all:
//
//   - One effect that only this multi can have had: it was applied.
//   - One thing that is as it was before the multi was sent, and would not be if it had been applied:
//     it was not, and is sent again.
//   - Neither: what it made may have been deleted or written over since. It is sent again, as it was
//     probably not applied, and the caller asked for it to be done. But if it is refused then, its own
//     first effect may be the reason, and the refusal says nothing: the outcome is unknown.
//
// Update and Delete leave nothing that only they can have done. So an Update is asked only if all other
// ops are Updates or Deletes, and a Delete only if all are Deletes.
func (c *commit) resolve(ctx context.Context, f *flight) (made []backend.Entry, applied bool, err error) {
	if err := c.s.settle(ctx, f.gen); err != nil {
		return nil, false, err
	}
	if len(c.ops) == 0 {
		return nil, false, nil // only guards: ask again
	}
	q := c.inquire(f.m)
	best := slices.MaxFunc(c.ops, func(a, b backend.Op) int { return cmp.Compare(weight(a), weight(b)) })
	for i, op := range c.ops {
		if weight(op) < weight(best) {
			continue
		}
		if err := q.ask(ctx, i); err != nil || q.never {
			return nil, false, readError(err)
		}
	}
	if !q.applied() {
		c.doubt = f
		return nil, false, nil
	}
	made, err = q.recover(ctx)
	return made, err == nil, err
}

// left returns the existing ephemeral entries of a multi that was given up, by op.
func (c *commit) left(ctx context.Context, f *flight) ([]backend.Entry, error) {
	if err := c.s.settle(ctx, f.gen); err != nil {
		return nil, err
	}
	q := c.inquire(f.m)
	for i, op := range c.ops {
		if !leavesTrace(op) {
			continue
		}
		if err := q.ask(ctx, i); err != nil {
			return nil, err
		}
	}
	for i := range q.made {
		if !q.applied() || q.never && !q.sure || q.made[i].Rev != q.zxid {
			q.made[i] = backend.Entry{}
		}
	}
	return q.made, nil
}

// settle waits until nothing that was sent on a link can be applied any more, and all that was applied
// can be read.
func (s *session) settle(ctx context.Context, gen uint64) error {
	if _, err := s.awaitLive(ctx, gen); err != nil {
		return err
	}
	_, err := read(ctx, s, func() (struct{}, error) { return struct{}{}, s.vote() })
	return err
}

// leavesTrace reports whether an op's effect can be distinguished from another's.
func leavesTrace(op backend.Op) bool { return op.Ephemeral() || op.Kind == backend.OpCompareAndSet }

// weight is how much an op can tell.
func weight(op backend.Op) int {
	switch {
	case leavesTrace(op):
		return 2
	case op.Kind == backend.OpUpdate:
		return 1
	}
	return 0
}

// recover returns what a multi that was applied has made.
func (q *inquiry) recover(ctx context.Context) ([]backend.Entry, error) {
	s := q.c.s
	made := make([]backend.Entry, len(q.c.ops))
	for i, op := range q.c.ops {
		made[i] = backend.Entry{Key: op.Key}
		switch {
		case op.Kind == backend.OpDelete:
			s.gone(op.Key, op.Rev)
			continue
		case op.Kind == backend.OpCompareAndSet && op.Version == 0:
			made[i] = backend.Entry{Key: op.Key, Value: op.Value, Rev: q.zxid, Version: 1}
			continue
		case op.Ephemeral():
			if made[i] = q.made[i]; !made[i].Exists() || made[i].Rev != q.zxid {
				return nil, errGone(op)
			}
			s.learned.addOwn(made[i], q.c.gen)
			continue
		}
		n, err := s.get(ctx, s.path(op.Key))
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return nil, readError(err)
		}
		if err != nil || uint64(n.stat.Czxid) > q.zxid || op.Kind == backend.OpUpdate && uint64(n.stat.Czxid) != op.Rev {
			return nil, errGone(op)
		}
		s.learned.setDir(s.path(op.Key), false)
		// After another write the entry is returned as a CompareAndSet left it, which is known, or, for
		// an Update, whose version is not known, as it is now.
		made[i] = s.entry(s.path(op.Key), n)
		if op.Kind == backend.OpCompareAndSet {
			made[i].Value, made[i].Version = op.Value, op.Version+1
		}
	}
	return made, nil
}

func errGone(op backend.Op) error {
	return fmt.Errorf("it was done, and somebody has deleted what the %v of %s made", op.Kind, op.Key)
}

// An inquiry looks for what a multi may have left. All writes of a transaction have its zxid, so a
// write identifies its transaction. What has no zxid later than the newest one before the multi was
// sent was there before the multi.
type inquiry struct {
	c *commit
	m *multi

	zxid   uint64          // of a transaction that has done what an op asked for, or 0
	sure   bool            // it is this multi's
	never  bool            // the multi was not applied
	gone   bool            // the entry of a Delete is gone, no matter who deleted it
	others []uint64        // transactions that are not the multi's
	made   []backend.Entry // own ephemeral entries, by op: the multi's if they bear its zxid
}

func (c *commit) inquire(m *multi) *inquiry {
	return &inquiry{c: c, m: m, made: make([]backend.Entry, len(c.ops))}
}

// applied reports the conclusion: whether the multi was applied.
func (q *inquiry) applied() bool {
	if q.zxid == 0 {
		return q.gone
	}
	return q.sure || !slices.Contains(q.others, q.zxid)
}

// like notes a transaction that has done what an op asked for. If the ops find different ones, none of
// these counts.
func (q *inquiry) like(zxid int64) {
	switch z := uint64(zxid); {
	case q.sure || q.zxid == z:
	case q.zxid == 0:
		q.zxid = z
	default:
		q.others = append(q.others, q.zxid, z)
	}
}

// is notes the multi's own transaction.
func (q *inquiry) is(zxid int64) { q.zxid, q.sure = uint64(zxid), true }

// before reports whether a transaction is older than the commit.
func (q *inquiry) before(zxid int64) bool { return uint64(zxid) <= q.c.began }

// ask finds out what one op can tell.
func (q *inquiry) ask(ctx context.Context, i int) error {
	s, op := q.c.s, q.c.ops[i]
	path := s.path(op.Key)
	if op.Kind == backend.OpEnqueue {
		found, err := q.find(ctx, i)
		if err != nil || found == "" {
			return err
		}
		path = found
	}
	if op.Kind == backend.OpCreateEphemeral {
		if err := q.askParent(ctx, i); err != nil {
			return err
		}
	}
	n, err := s.get(ctx, path)
	switch {
	case err == nil:
		q.weigh(i, path, n)
		return nil
	case !errors.Is(err, zk.ErrNoNode):
		return err
	}
	q.gone = op.Kind == backend.OpDelete
	return q.askAbove(ctx, path)
}

// weigh draws conclusions from the node that exists under an op's path.
func (q *inquiry) weigh(i int, path string, n node) {
	s, op, stat := q.c.s, q.c.ops[i], n.stat
	e := s.entry(path, n)
	same := bytes.Equal(n.data, op.Value)
	switch op.Kind {
	case backend.OpEnqueue:
		q.made[i] = e
		q.is(stat.Czxid)
	case backend.OpCreateEphemeral:
		switch {
		case q.before(stat.Czxid):
			q.never = true
		case e.Session != s.ID():
			q.others = append(q.others, e.Rev)
		default: // nothing else in this session has been creating here: see TakeTurn
			q.made[i] = e
			q.is(stat.Czxid)
		}
	case backend.OpCompareAndSet:
		switch {
		case q.before(stat.Mzxid), op.Version == 0 && q.before(stat.Czxid):
			q.never = true
		case e.Version == op.Version+1 && same:
			q.like(stat.Mzxid)
		case e.Version <= op.Version+1 && q.before(stat.Czxid):
			q.never = true // versions rise, and only one write led to the next
		case e.Version == 1:
			q.others = append(q.others, e.Rev)
		}
	case backend.OpUpdate:
		switch {
		case q.before(stat.Mzxid): // on this incarnation or, as it was gone, on the next
			q.never = true
		case e.Rev == op.Rev && same:
			q.like(stat.Mzxid)
		}
	case backend.OpDelete:
		q.never = e.Rev == op.Rev || q.before(stat.Czxid)
		q.gone = true
	}
}

// find looks for the entry of an Enqueue, by the nonce in its name, and returns its path, or "".
func (q *inquiry) find(ctx context.Context, i int) (string, error) {
	s, dir := q.c.s, q.c.ops[i].Key
	children, rev, err := s.list(ctx, dir)
	if err != nil {
		return "", err
	}
	for _, child := range children { // also with numbers past the end
		if n, ok := parseName(child); ok && n.nonce == q.c.nonces[i] {
			q.sure = true
			return s.path(dir) + "/" + n.text, nil
		}
	}
	if rev == 0 {
		return "", q.askAbove(ctx, s.path(dir))
	}
	q.never = q.before(int64(rev))
	return "", nil
}

// askParent looks for the mark of a CreateEphemeral. A transaction that has made another mark is not
// this multi.
func (q *inquiry) askParent(ctx context.Context, i int) error {
	s := q.c.s
	parent := backend.Parent(s.path(q.c.ops[i].Key))
	nonce := q.m.bumped[parent]
	if nonce == "" {
		return nil
	}
	n, err := s.get(ctx, parent)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil
	case err != nil:
		return err
	case bytes.Equal(n.data, mark(nonce)):
		q.is(n.stat.Mzxid)
	default:
		q.others = append(q.others, uint64(n.stat.Mzxid))
	}
	return nil
}

// askAbove finds out whether a missing path has been missing all the time: then no child of the nearest
// existing directory above it has come or gone.
func (q *inquiry) askAbove(ctx context.Context, path string) error {
	for path != "/" {
		path = backend.Parent(path)
		stat, err := q.c.s.exists(ctx, path)
		if err != nil {
			return err
		}
		if stat != nil {
			q.never = q.before(stat.Pzxid)
			return nil
		}
	}
	return nil
}
