package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance/history"
	"github.com/elector-go/elector/internal/program"
)

// work writes until ctx ends: to the register in the service by fenced commits, and, after a look at Valid,
// to a log that everybody can write to.
func (c *candidate) work(ctx context.Context, t *elector.Term) {
	var told time.Time
	for ctx.Err() == nil {
		there, err := t.Guard().Session.Get(ctx, register)
		if err != nil && !errors.Is(err, backend.ErrNoEntry) {
			return // the term or ctx is over: a read survives everything else
		}
		for err = nil; err == nil && ctx.Err() == nil; {
			if there, err = c.commit(ctx, t, there); err == nil && time.Since(told) > tellEvery {
				fmt.Println(saysWorks)
				told = time.Now()
			}
			c.write(t)
			_ = program.Sleep(ctx, workEvery)
		}
	}
}

// keepQuiet writes only to the log until ctx ends. A server that the others have left answers little once
// it has taken a write, which nobody acknowledges; a leader that writes all the time would soon notice.
func (c *candidate) keepQuiet(ctx context.Context, t *elector.Term) {
	for ctx.Err() == nil {
		if c.write(t) {
			fmt.Println(saysWorks)
		}
		_ = program.Sleep(ctx, tellEvery)
	}
}

// commit writes the next value over the register's, and returns the register's entry afterwards.
func (c *candidate) commit(ctx context.Context, t *elector.Term, old backend.Entry) (backend.Entry, error) {
	value := c.next(t, old)
	op := elector.Create(register, value)
	if old.Exists() {
		op = elector.CompareAndSet(register, value, old.Version)
	}
	made, err := t.Commit(ctx, op)
	if err != nil {
		return backend.Entry{}, err
	}
	made[0].Value = value
	return made[0], nil
}

// next returns a value that is never written twice. It names the value that it replaces, so that all values
// ever written can be derived from the last.
func (c *candidate) next(t *elector.Term, old backend.Entry) []byte {
	return fmt.Appendf(nil, "%s:%d:%d%s%s", c.options.Name, t.Token(), c.seq.Add(1), after, nameOf(string(old.Value)))
}

// after separates a value's name from the name of the value before.
const after = "<"

// nameOf returns a value's own name.
func nameOf(value string) string { name, _, _ := strings.Cut(value, after); return name }

// nameBefore returns the name of the value that this one replaced.
func nameBefore(value string) string { _, before, _ := strings.Cut(value, after); return before }

// A line is one line of the unfenced log.
type line struct {
	Process string
	Token   uint64
	// Asked is just before the call of Valid, which returned true, and Written just before the write.
	Asked, Written int64
}

// write adds a line to the unfenced log, like a leader that checks its term right before a write, and then
// needs a moment for it. It reports whether the term held.
func (c *candidate) write(t *elector.Term) bool {
	l := line{Process: c.options.Name, Token: t.Token(), Asked: c.clock.Now()}
	if !t.Valid() {
		return false
	}
	time.Sleep(moment)
	l.Written = c.clock.Now()
	if err := json.NewEncoder(c.log).Encode(l); err != nil { // in one write
		panic(fmt.Sprintf("write the unfenced log: %v", err))
	}
	return true
}

// haunt continues to write after the end of a term, with the term's guard and in a session of another
// connection: now only the service can refuse it. It ends when the service has refused the guard, as it
// will then always do.
func (c *candidate) haunt(ctx context.Context, t *elector.Term) {
	ctx, cancel := context.WithTimeout(ctx, hauntFor)
	defer cancel()
	s, err := c.backend.Open(ctx, backend.OpenOptions{})
	if err != nil {
		return
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		_ = s.Close(closing) // it has no entries
	}()
	guards := t.Guard().Conditions
	if c.options.Broken == brokenUnarmed {
		guards = nil
	}
	for !errors.Is(err, backend.ErrCondition) && ctx.Err() == nil {
		old, missing := s.Get(ctx, register)
		if missing != nil {
			return // never written, or out of touch
		}
		value := c.next(t, old)
		call := c.history.Start(history.Event{ // without a term: see isLate
			Kind: history.Commit, Candidate: c.options.ID, Session: s.ID(), Token: t.Token(),
			Writes: []history.Write{{Op: history.CompareAndSet, Key: register, Value: string(value), Expected: old.Version}},
		})
		_, err = s.Commit(ctx, guards, backend.CompareAndSet(register, value, old.Version))
		c.history.Finish(call, err)
		_ = program.Sleep(ctx, workEvery)
	}
}

// Ways to break a candidate that a campaign must find.
const (
	brokenLiar    = "liar"    // it says that its term holds when it does not
	brokenUnarmed = "unarmed" // it continues to write, without the guard
	brokenHasty   = "hasty"   // its sessions are ended while it lives
)

// lie returns a term that claims to hold for a while longer than it does.
func lie(t *elector.Term) *elector.Term {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(t.Context()))
	context.AfterFunc(t.Context(), func() {
		time.AfterFunc(hauntFor, func() { cancel(context.Cause(t.Context())) })
	})
	return elector.NewTerm(elector.TermConfig{
		Token: t.Token(), Context: ctx, Valid: func() bool { return ctx.Err() == nil },
		Proclaim: t.Proclaim, Commit: t.Commit, Guard: t.Guard, Resign: t.Resign,
		Get: t.Get, Asked: t.Asked(), Request: t.Request,
	})
}
