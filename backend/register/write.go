package register

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// Commit implements backend.Driver.
func (s *session) Commit(ctx context.Context, conditions []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
	key := ""
	if len(ops) > 0 {
		key = ops[0].Key
	} else if len(conditions) > 0 {
		key = conditions[0].Entry.Key
	}
	made, err := s.commit(ctx, conditions, ops)
	if about := (*keyError)(nil); errors.As(err, &about) && about.key == key {
		err = about.err
	}
	return made, err
}

func (s *session) commit(ctx context.Context, conditions []backend.Condition, ops []backend.Op) (made []backend.Entry, err error) {
	if len(ops) == 0 { // nothing is written
		snap, err := s.read(ctx)
		if err != nil {
			return nil, err
		}
		return nil, snap.doc.holds(conditions)
	}
	if err := s.AwaitLive(ctx); err != nil {
		return nil, err
	}
	err = s.update(ctx, func(d *document) (_ []backend.Entry, err error) {
		if err := d.holds(conditions); err != nil {
			return nil, err
		}
		made, err = d.commit(s.ID(), ops)
		return made, err
	})
	if err != nil {
		return nil, err
	}
	return made, nil
}

// A change changes a document and returns the entries that it leaves. If it returns an error, nothing is
// written. It may be called several times.
type change func(d *document) ([]backend.Entry, error)

// update makes a change by one swap, which also is a heartbeat: a nil change is only that.
func (s *session) update(ctx context.Context, do change) error {
	if do != nil {
		if err := s.take(ctx, s.queue); err != nil {
			return err
		}
		defer func() { <-s.queue }()
	}
	if err := s.take(ctx, s.turn); err != nil {
		return err
	}
	defer func() { <-s.turn }()
	w := &write{session: s, do: do}
	if err := s.Wait(ctx, s.link.pace(s.TTL()/8)); err != nil {
		return err
	}
	if s.link.notified { // otherwise what is known is old
		w.snap, _ = s.link.latest()
	}
	var bout driver.Bout
	var pause driver.Pause
	for {
		done, err := w.step(ctx)
		if done {
			return err
		}
		switch over := s.Over(ctx); {
		case over != nil:
			return w.giveUp(over)
		case err == nil:
			continue
		case lasts(err):
			return w.giveUp(err)
		case bout.Over(s.TTL()):
			return w.giveUp(fmt.Errorf("%w for %v: %w", backend.ErrUnavailable, s.TTL(), err))
		case errors.Is(err, ErrMoved):
			if bout.First() {
				continue
			}
		default:
			s.Suspend(err)
		}
		if err := s.Pause(ctx, &pause); err != nil {
			return w.giveUp(err)
		}
	}
}

// take takes a place in which there is one. The error is that of Over.
func (s *session) take(ctx context.Context, place chan struct{}) error {
	select {
	case place <- struct{}{}:
		return nil
	case <-ctx.Done():
	case <-s.Ctx.Done():
	}
	return s.Over(ctx)
}

// A write is one call of update.
//
// # Lost replies
//
// A swap without a reply is sent again as it was. Of swaps that expect the same tag only one can be done,
// and the session's slot tells whether it was this one. Once the tag has moved and the slot has another
// nonce, the swap was not done and never will be. So nothing is done twice, and the outcome is known as soon
// as the store answers.
//
// If the caller gives up before that, the swap becomes a doubt. The session's next write settles it: it
// moves the tag, or finds what the doubt has made and removes that in the same step.
type write struct {
	*session
	do    change
	snap  *snapshot // what the swap is to change; nil: it must be read
	fresh bool      // snap was read in this call, so a refusal is final
	swap  *swap     // what is sent; nil: it must be built
}

// A swap is what a write sends.
type swap struct {
	doubt
	doc     *document
	object  []byte
	began   time.Time // when it was sent first
	unknown bool      // it may have been done, or may still be
}

// A doubt names a swap that may have been done, or may still be as long as the object's tag is tag.
type doubt struct {
	tag   string
	nonce uint64
	made  []backend.Entry // the ephemeral entries that it makes
}

// step does one step, with at most one request of each kind. It reports whether the write is over. If it
// is not, a nil error means that nothing failed.
func (w *write) step(ctx context.Context) (over bool, err error) {
	if w.snap == nil {
		if w.snap, err = w.request(ctx); err != nil {
			w.snap = nil
			return false, err
		}
		w.fresh = true
	}
	mine, lives := w.snap.sessions()[w.ID()]
	if !lives {
		w.Lose(errRemoved)
		return false, w.LostError()
	}
	switch {
	case w.swap == nil:
	case mine.Slot == w.swap.nonce:
		return true, w.found()
	case w.snap.tag != w.swap.tag:
		w.swap = nil // it was not done, and never will be
	}
	if w.swap == nil {
		switch err := w.build(mine); {
		case err == nil:
		case w.fresh:
			return true, err
		default:
			w.snap = nil // it may be refused only because what is known is old
			return false, nil
		}
	}
	return w.send(ctx)
}

// build makes the swap from the snapshot.
func (w *write) build(mine record) error {
	nonce := driver.NewNonce()
	doc := w.snap.doc.next(nonce, time.Now())
	for _, d := range w.doubts {
		if d.nonce == mine.Slot { // it was done, and nobody knows of what it has made
			for _, e := range d.made {
				if doc.at(e.Key).Is(e) {
					delete(doc.Entries, e.Key)
				}
			}
		}
	}
	for _, id := range w.link.silent(w.snap) {
		if id != w.ID() {
			doc.drop(id)
		}
	}
	next := &swap{doubt: doubt{tag: w.snap.tag, nonce: nonce}, doc: doc}
	if w.do != nil {
		made, err := w.do(doc)
		if err != nil {
			return err
		}
		for _, e := range made {
			if e.Session == w.ID() && e.Version == 1 {
				next.made = append(next.made, e)
			}
		}
	}
	doc.Sessions[w.ID()] = record{TTL: mine.TTL, Beat: mine.Beat + 1, Slot: nonce}
	var err error
	if next.object, err = doc.encode(); err != nil {
		return err
	}
	if w.do != nil && len(next.object) > w.cfg.MaxBytes {
		if err := w.mayShrink(len(next.object)); err != nil {
			return err
		}
	}
	w.swap = next
	return nil
}

// mayShrink returns an error unless the snapshot's object is larger than size, which is too large.
func (w *write) mayShrink(size int) error {
	old, err := w.snap.doc.encode()
	if err == nil && size >= len(old) {
		err = fmt.Errorf("%w: the object would have %d bytes, at most %d (Config.MaxBytes)", backend.ErrTooLarge, size, w.cfg.MaxBytes)
	}
	return err
}

// send sends the swap.
func (w *write) send(ctx context.Context) (over bool, err error) {
	ctx, cancel := w.boundSwap(ctx)
	defer cancel()
	sent := time.Now()
	if w.swap.began.IsZero() {
		w.swap.began = sent
	}
	tag, err := w.link.store.Swap(ctx, w.swap.object, w.swap.tag)
	nothing := errors.Is(err, ErrMoved) || errors.Is(err, backend.ErrUnavailable) || lasts(err)
	switch {
	case err == nil:
		w.link.yield(time.Since(sent), w.do != nil)
		w.done()
		w.link.adopt(&snapshot{w.swap.doc, tag})
		return true, nil
	case !nothing, errors.Is(err, ErrMoved): // the next snapshot tells, and also whether an earlier try was done, or one that the client has repeated
		w.swap.unknown = true
	}
	w.snap = nil
	return false, err
}

// done notes that the swap was done.
func (w *write) done() {
	w.doubts = nil // their tag has moved
	w.acknowledge(w.swap.doc)
	w.Extend(w.swap.began)
	w.Resume()
}

// found handles a swap without a reply that was done, as the snapshot shows. An entry that is gone already
// must not be returned as existing; the swap's other entries go, too.
func (w *write) found() error {
	w.done()
	gone := ""
	for _, e := range w.swap.made {
		if !w.snap.doc.at(e.Key).Is(e) {
			gone = e.Key
		}
	}
	if gone == "" {
		return nil
	}
	for _, e := range w.swap.made {
		w.Reap(e)
	}
	return of(gone, fmt.Errorf("%w: it was done, and somebody has removed it since", backend.ErrIndeterminate))
}

// giveUp returns the error of a write that is given up for the reason why.
func (w *write) giveUp(why error) error {
	if w.swap == nil || !w.swap.unknown {
		return why
	}
	w.doubts = append(w.doubts, w.swap.doubt)
	w.BeatSoon()
	return driver.Indeterminate(why)
}
