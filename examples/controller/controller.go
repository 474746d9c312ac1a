package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
)

// lead is a broker's term as the controller, until the term is over or ctx ends.
func (b *broker) lead(ctx context.Context, t *elector.Term) error {
	b.say("IS THE CONTROLLER, epoch %d", t.Token())
	err := b.control(ctx, t)
	b.say("is the controller no more, epoch %d: %v", t.Token(), cmp.Or(context.Cause(t.Context()), err))
	if !t.Valid() {
		late := b.writeLate(context.WithoutCancel(ctx), t)
		b.say("a late write, in controller epoch %d: %v", t.Token(), cmp.Or(late, errors.New("done, as nobody has followed yet")))
	}
	return err
}

// control keeps the states of all partitions right. An error ends the term, and the next controller continues
// from the stored states. That one cannot know who registered again before its term, so such a leader stays.
func (b *broker) control(ctx context.Context, t *elector.Term) error {
	ids := slices.Compact(slices.Sorted(slices.Values(slices.Concat(replicas...))))
	var known []backend.Entry // the registrations
	for _, id := range ids {
		known = append(known, backend.Unknown(registrationKey(id)))
	}
	for {
		now, err := t.Guard().Session.Await(ctx, known...)
		if err != nil {
			return err
		}
		live := make(map[int]bool)
		for i, e := range now {
			if last := known[i]; e.Exists() && last.Exists() && !last.IsUnknown() && !e.Is(last) {
				// A broker that registered again died in between, though its id was never missing: it counts
				// as dead first, and as live at the next look.
				now[i] = backend.Entry{Key: e.Key}
			}
			live[ids[i]] = now[i].Exists()
		}
		known = now
		for changed := true; changed; {
			if changed, err = b.settle(ctx, t, live); err != nil {
				return err
			}
		}
	}
}

// settle decides about all partitions, and writes the changes in one commit, which the service refuses if
// there may be another controller.
func (b *broker) settle(ctx context.Context, t *elector.Term, live map[int]bool) (changed bool, err error) {
	stored, err := t.Get(ctx, partitionsKey) // with all that earlier controllers wrote
	if err != nil && !errors.Is(err, backend.ErrNoEntry) {
		return false, err
	}
	states, err := decode(stored)
	if err != nil {
		return false, err
	}
	for n := len(states); n < len(replicas); n++ {
		states = append(states, fresh(replicas[n]))
	}
	for n, p := range states {
		next := decide(p, live, b.unclean)
		if next.same(p) {
			continue
		}
		next.ControllerEpoch = t.Token()
		states[n], changed = next, true
		b.say("decides partition %d: %v", n, next)
	}
	if changed {
		value, _ := json.Marshal(states) // cannot fail
		_, err = t.Commit(ctx, elector.Put(partitionsKey, value))
	}
	return changed, err
}

// decode reads the states of the partitions. Somebody else may have written there.
func decode(e backend.Entry) (states []partition, err error) {
	if len(e.Value) > 0 {
		err = json.Unmarshal(e.Value, &states)
	}
	if err != nil {
		err = fmt.Errorf("%s holds %.80q: %w", e.Key, e.Value, err)
	}
	return states, err
}

// writeLate is what a process does that was frozen just before a write, and continues when its term is over.
// But it bypasses Term.Commit, which knows that, and uses its own session, which is live. The write has the
// conditions of its term, like all writes of Term.Commit: so the service refuses it.
func (b *broker) writeLate(ctx context.Context, t *elector.Term) error {
	s, err := b.backend.Open(ctx, backend.OpenOptions{})
	if err != nil {
		return err
	}
	defer s.Close(ctx)
	stored, err := s.Get(ctx, partitionsKey)
	if err != nil {
		return err
	}
	_, err = s.Commit(ctx, t.Guard().Conditions, backend.Update(stored, stored.Value))
	return err
}
