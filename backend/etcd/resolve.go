package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// A transaction whose reply was lost may still arrive for as long as any server or link holds it
// back. So every attempt of a commit has the condition that its fence was not put after the last
// revision that the session had seen, and before anything is decided the fence is put, with the
// session's lease. What was not applied by then never will be.
//
// A fence is a key: the one that the commit writes, a zero byte and the session. A user who may write the
// range from the key may write the fence, CheckKey refuses such keys, no listing shows them, and
// childless does not count them. All that is enqueued in a directory, under ever new keys, has one
// fence, after the queue: so there are no more fences than keys and directories, however many replies
// are lost. If others in the session have pending attempts with the same fence, those are refused,
// too, and made again.

const fenceMark = "\x00"

// fenceKey returns the fence of the commit's attempts, beside the key of the most telling op.
func (c *commit) fenceKey() string {
	key := c.keys[c.witness()]
	if _, ok := parseName(key); ok {
		return queueFence(backend.Parent(key), c.s.ID())
	}
	return key + fenceMark + c.s.ID()
}

// queueFence returns the fence of all that a session enqueues in dir.
func queueFence(dir, session string) string {
	_, end := queueRange(dir)
	return end + fenceMark + session
}

func isFence(key string) bool { return strings.Contains(key, fenceMark) }

// telling are the kinds of ops, in the order in which they prove that a commit was applied: what the
// first leave is least like what somebody else may leave.
var telling = []backend.OpKind{backend.OpEnqueue, backend.OpCreateEphemeral, backend.OpCompareAndSet, backend.OpUpdate, backend.OpDelete}

// witness returns the index of the most telling op.
func (c *commit) witness() int {
	for _, kind := range telling {
		if i := slices.IndexFunc(c.ops, func(op backend.Op) bool { return op.Kind == kind }); i >= 0 {
			return i
		}
	}
	return 0
}

// resolve finds out whether an attempt whose reply was lost was applied. It puts the fence, and then
// reads the history of the witness from before the attempt up to the fence: etcd keeps it, even if
// others have written or deleted the key since. All writes of a transaction have its revision, so the
// other keys, as they were at a revision, show whether a write like the witness' is the attempt's. If
// resolve finds nothing, the commit was not applied and never will be: it is tried again. If the
// history was compacted, or cannot be read for a session timeout, the outcome is unknown.
func (c *commit) resolve(ctx context.Context, lost error) (made []backend.Entry, applied bool, err error) {
	if c.answered {
		if never, err := c.never(ctx); never || err != nil {
			return nil, false, err
		}
	}
	if c.late = errors.Is(lost, context.DeadlineExceeded); c.late {
		c.s.shift(ctx) // the next request should not meet the same member
	}
	sealed, err := c.seal(ctx)
	if err != nil {
		return nil, false, err
	}
	revs, err := c.past(ctx, sealed)
	if err != nil {
		return nil, false, err
	}
	for _, rev := range revs {
		out, mine, err := c.at(ctx, rev)
		if err != nil {
			return nil, false, err
		}
		if mine {
			made, err = c.finish(ctx, out)
			return made, err == nil, err
		}
	}
	c.fence = ""
	return nil, false, nil
}

// never reports whether an attempt that was answered, so that nothing of it comes any more, was surely
// not applied. That takes no fence, for which there may be no space: nothing was written since before
// the attempt, or the witness' key exists and was not written.
func (c *commit) never(ctx context.Context) (bool, error) {
	found, seen, err := c.s.snapshot(ctx, clientv3.OpGet(c.keys[c.witness()], clientv3.WithKeysOnly()))
	if err != nil {
		return false, err
	}
	kv := one(found[0])
	if seen > c.began && (kv == nil || kv.ModRevision > c.began) {
		return false, nil
	}
	c.fence = ""
	return true, nil
}

// seal puts the fence, and returns its revision.
func (c *commit) seal(ctx context.Context) (int64, error) {
	s := c.s
	answer, err := try(ctx, s, func(ctx context.Context) (*clientv3.PutResponse, error) {
		answer, err := s.client.KV.Put(ctx, c.fence, "", clientv3.WithLease(s.lease))
		if err == nil {
			err = whole(answer.Header, 0, 0)
		}
		return answer, err
	})
	if err != nil {
		if is(err, rpctypes.ErrLeaseNotFound) {
			err = s.LostBy(errExpired)
		}
		return 0, err
	}
	s.saw(answer.Header.Revision)
	return answer.Header.Revision, nil
}

// sealed returns a revision from which on nothing of the attempt comes any more. An attempt that was
// answered is over. If the reply was that there is no space, no fence could be put.
func (c *commit) sealed(ctx context.Context) (int64, error) {
	if !c.answered {
		return c.seal(ctx)
	}
	_, seen, err := c.s.snapshot(ctx, clientv3.OpGet(c.fence, clientv3.WithKeysOnly()))
	return seen + 1, err
}

// past returns the revisions, oldest first, since before the attempt and up to sealed, the fence's, at
// which something was done to the witness' key that the attempt would have done. It reads them if reads
// show all of it, and otherwise uses a watch: a read goes to another member as soon as one does not
// answer, while a watch may be on a frozen one for long.
func (c *commit) past(ctx context.Context, sealed int64) ([]int64, error) {
	for _, read := range []func(context.Context, int64) ([]int64, bool, error){c.steps, c.trail} {
		revs, whole, err := read(ctx, sealed)
		if whole || err != nil && !is(err, rpctypes.ErrCompacted) && !errors.Is(err, backend.ErrTooLarge) {
			return revs, err
		}
	}
	return c.history(ctx, sealed)
}

const (
	// mostSteps is how many reads of what existed at successive revisions are made at once.
	mostSteps = 120
	// longestTrail is how many writes of others are read backwards: beyond that a watch is cheaper.
	longestTrail = 8
)

// steps is past by reads of each revision, if there are few.
func (c *commit) steps(ctx context.Context, sealed int64) (revs []int64, whole bool, err error) {
	i := c.witness()
	keys := []string{c.keys[i]}
	if c.ops[i].Kind == backend.OpEnqueue {
		keys = append(keys, c.keys[i]+transitSuffix)
	}
	if (sealed-c.began)*int64(len(keys)) > int64(min(mostSteps, c.s.cfg.MaxOps)) {
		return nil, false, nil
	}
	var gets []clientv3.Op
	for rev := c.began; rev < sealed; rev++ {
		for _, key := range keys {
			gets = append(gets, clientv3.OpGet(key, clientv3.WithRev(rev)))
		}
	}
	found, _, err := c.s.snapshot(ctx, gets...)
	if err != nil {
		return nil, false, err
	}
	for j := len(keys); j < len(found); j++ {
		rev, was, kv := c.began+int64(j/len(keys)), one(found[j-len(keys)]), one(found[j])
		deleted := was != nil && kv == nil && c.ops[i].Kind == backend.OpDelete
		if deleted || kv != nil && kv.ModRevision == rev && c.would(i, kv) {
			revs = append(revs, rev)
		}
	}
	return revs, true, nil
}

// trail is past by reads backwards: from what exists at the fence's revision to what existed before
// that was written, and so on. It shows the whole history unless the key was without an entry in
// between. That does not matter to a CreateEphemeral whose entry exists: no other has its lease.
func (c *commit) trail(ctx context.Context, sealed int64) (revs []int64, whole bool, err error) {
	i := c.witness()
	if c.ops[i].Kind == backend.OpEnqueue { // what is in transit has another key
		return nil, false, nil
	}
	defer func() { slices.Reverse(revs) }()
	rev := sealed
	for range longestTrail {
		found, _, err := c.s.snapshot(ctx, clientv3.OpGet(c.keys[i], clientv3.WithRev(rev)))
		if err != nil {
			return nil, false, err
		}
		kv := one(found[0])
		switch {
		case kv == nil:
			return nil, false, nil
		case kv.ModRevision <= c.began:
			return revs, true, nil
		}
		if c.would(i, kv) {
			revs = append(revs, kv.ModRevision)
		}
		if kv.Version == 1 {
			return revs, c.ops[i].Kind == backend.OpCreateEphemeral && len(revs) > 0, nil
		}
		rev = kv.ModRevision - 1
	}
	return nil, false, nil
}

// history is past by a watch.
func (c *commit) history(ctx context.Context, sealed int64) ([]int64, error) {
	bound, cancel := c.s.Bind(ctx)
	defer cancel()
	var refused driver.Bout
	for pause := (driver.Pause{}); ; {
		revs, err := c.watched(bound, sealed)
		switch over := c.s.Over(ctx); {
		case err == nil:
			return revs, nil
		case over != nil:
			return nil, over
		case !passing(err) || c.s.givesUp(&refused, err): // compacted or denied, for example
			return nil, fmt.Errorf("the history that would tell is not to be had: %w", err)
		}
		c.s.BeatSoon()
		pause.Wait(bound)
	}
}

func (c *commit) watched(ctx context.Context, sealed int64) (revs []int64, err error) {
	i := c.witness()
	last := max(c.keys[i]+transitSuffix, c.fence)
	answers, end := c.s.watch(ctx, c.keys[i], clientv3.WithRange(last+"\x00"), clientv3.WithRev(c.began+1))
	defer func() { end(err) }()
	for answer := range answers {
		if err := watchError(&answer); err != nil {
			return nil, err
		}
		for _, event := range answer.Events {
			switch string(event.Kv.Key) {
			case c.fence:
				if event.Kv.ModRevision >= sealed { // else it is another's, or an operator has deleted it
					return revs, nil
				}
			case c.keys[i], c.keys[i] + transitSuffix:
				if event.Type == mvccpb.DELETE && c.ops[i].Kind == backend.OpDelete || c.would(i, event.Kv) {
					revs = append(revs, event.Kv.ModRevision)
				}
			}
		}
	}
	return nil, errWatchEnded
}

// would reports whether an op would leave kv under its key.
func (c *commit) would(i int, kv *mvccpb.KeyValue) bool {
	op := c.ops[i]
	same := bytes.Equal(kv.GetValue(), op.Value)
	switch op.Kind {
	case backend.OpCreateEphemeral, backend.OpEnqueue:
		return same && kv.GetVersion() == 1 && kv.GetLease() == int64(c.s.lease)
	case backend.OpCompareAndSet:
		return same && uint64(kv.GetVersion()) == op.Version+1
	case backend.OpUpdate:
		return same && kv != nil && toEntry(op.Key, kv).Rev == op.Rev
	}
	return kv.GetVersion() == 0
}

// at reports whether the commit was applied at a revision, and if so returns what it has made.
// Ephemeral entries that it has made must still exist.
func (c *commit) at(ctx context.Context, rev int64) (out outcome, mine bool, err error) {
	then, _, err := c.all(ctx, rev, clientv3.WithRev(rev))
	if err != nil {
		return outcome{}, false, err
	}
	out = outcome{rev: rev, made: make([]backend.Entry, len(c.ops)), before: make([]before, len(c.ops))}
	for i, op := range c.ops {
		kv := then[i]
		if !c.would(i, kv) || op.Kind != backend.OpDelete && kv.ModRevision != rev {
			return outcome{}, false, nil
		}
		out.made[i] = toEntry(op.Key, kv)
		if kv != nil {
			out.made[i].Key = string(kv.Key)
		}
	}
	c.wrote(out)
	now, seen, err := c.all(ctx, rev)
	if err != nil {
		return outcome{}, false, err
	}
	out.rev = seen
	for i, op := range c.ops {
		if !op.Ephemeral() {
			continue
		}
		if toEntry(op.Key, now[i]).Rev != out.made[i].Rev {
			return outcome{}, false, fmt.Errorf("it was done, and somebody has deleted what the %v of %s made", op.Kind, op.Key)
		}
		out.made[i].Key = string(now[i].Key) // somebody may have helped it into order
	}
	return out, true, nil
}

// all reads what exists under the key of each op; for an Enqueue, under any form of the key with the
// ticket rev.
func (c *commit) all(ctx context.Context, rev int64, opts ...clientv3.OpOption) ([]*mvccpb.KeyValue, int64, error) {
	var gets []clientv3.Op
	var of []int
	for i, op := range c.ops {
		keys := []string{c.keys[i]}
		if op.Kind == backend.OpEnqueue {
			transit := c.keys[i] + transitSuffix
			keys = append(keys, transit, orderedKey(transit, uint64(rev)))
		}
		for _, key := range keys {
			gets, of = append(gets, clientv3.OpGet(key, opts...)), append(of, i)
		}
	}
	found, seen, err := c.s.snapshot(ctx, gets...)
	if err != nil {
		return nil, 0, err
	}
	kvs := make([]*mvccpb.KeyValue, len(c.ops))
	for j, i := range of {
		if kv := one(found[j]); kv != nil {
			kvs[i] = kv
		}
	}
	return kvs, seen, nil
}

// undo makes sure that nothing of an abandoned commit comes any more, and removes any ephemeral entries
// that it has made. If the fence may not be put, nothing can be done for a commit that makes none: see
// Access control.
func (c *commit) undo(ctx context.Context) error {
	sealed, err := c.sealed(ctx)
	if errors.Is(err, backend.ErrDenied) && !slices.ContainsFunc(c.ops, backend.Op.Ephemeral) {
		return nil
	}
	if err != nil {
		return err
	}
	for i, op := range c.ops {
		switch op.Kind {
		case backend.OpEnqueue:
			err = c.unqueue(ctx, op.Key, c.keys[i])
		case backend.OpCreateEphemeral: // nobody else in this session has been creating it: see TakeTurn
			key := c.keys[i]
			err = c.s.remove(ctx, []clientv3.Cmp{
				clientv3.Compare(clientv3.LeaseValue(key), "=", c.s.lease),
				clientv3.Compare(clientv3.CreateRevision(key), ">", c.began),
				clientv3.Compare(clientv3.CreateRevision(key), "<", sealed),
			}, key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unqueue removes an entry that may be enqueued in dir, in any form. After the first step nobody can
// bring it into order any more.
func (c *commit) unqueue(ctx context.Context, dir, alone string) error {
	transit := alone + transitSuffix
	if err := c.s.remove(ctx, nil, alone, transit); err != nil {
		return err
	}
	from, end := queueRange(dir)
	found, _, err := c.s.snapshot(ctx, clientv3.OpGet(from, clientv3.WithRange(end), clientv3.WithKeysOnly()))
	if err != nil {
		return err
	}
	for _, kv := range found[0] {
		key := string(kv.Key)
		if n, ok := parseName(key); ok && n.ordered && key == orderedKey(transit, n.ticket) {
			return c.s.remove(ctx, nil, key)
		}
	}
	return nil
}
