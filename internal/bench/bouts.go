package main

import (
	"context"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/internal/crowd"
)

// A bout is one step to be measured, and what the bare client does instead, which is
// its limit.
type bout struct {
	what string
	// before makes the state that do is measured from, and after clears up.
	before, after func() error
	// do and raw return how long it took.
	do, raw func() (time.Duration, error)
}

const writeKey = "/bench-writes/data"

// A writer is two candidates, of whom the second stands by, and the bare clients
// beside them.
type writer struct {
	l       *lab
	field   *field
	raw     *rawPair
	version uint64 // of the key that commits write
}

func (w *writer) bouts() []bout {
	commit := func(op func() elector.Op) func() (time.Duration, error) {
		return timed(func() error {
			made, err := w.field.leader.Term.Commit(w.field.Context(), op())
			if err == nil {
				w.version = made[0].Version
			}
			return err
		})
	}
	value := []byte("value")
	put := func() elector.Op { return elector.Put(writeKey, value) }
	compareAndSet := func() elector.Op { return elector.CompareAndSet(writeKey, value, w.version) }
	proclaim := timed(func() error { return w.field.leader.Term.Proclaim(w.field.Context(), value) })
	return []bout{
		{"claim of a vacant seat", nothing, w.resign, timed(w.claim), w.rawClaim},
		{"enrolling behind a leader", w.lead, w.clear, timed(w.enrol), w.rawClaim},
		{"handover", w.leadFollowed, w.clear, w.handover, w.rawHandover},
		{"Commit of a CompareAndSet", w.lead, nothing, commit(compareAndSet), w.rawWrite},
		{"Commit of a Put", w.lead, nothing, commit(put), w.rawWrite},
		{"Proclaim", w.lead, nothing, proclaim, w.rawWrite},
		{"Resign", w.lead, nothing, timed(w.resign), w.rawWrite},
	}
}

func nothing() error { return nil }

func timed(do func() error) func() (time.Duration, error) {
	return func() (time.Duration, error) {
		began := time.Now()
		err := do()
		return time.Since(began), err
	}
}

// claim campaigns on this goroutine, with nobody else there.
func (w *writer) claim() error {
	f := w.field
	term, err := f.Candidates[0].Campaign(f.Context())
	if err == nil {
		f.leader = crowd.Win{Candidate: f.Candidates[0], Term: term}
		f.present++
	}
	return err
}

// resign leaves the seat, with nobody else there.
func (w *writer) resign() error {
	w.field.present--
	return w.field.leader.Term.Resign(w.field.Context())
}

// lead leads, if nobody does yet, and reads the version that is to be compared.
func (w *writer) lead() error {
	f := w.field
	if f.present == 0 {
		if err := w.claim(); err != nil {
			return err
		}
	}
	made, err := f.leader.Term.Commit(f.Context(), elector.Put(writeKey, []byte("0")))
	if err == nil {
		w.version = made[0].Version
	}
	return err
}

// enrol has the other one enter, and returns when it waits.
func (w *writer) enrol() error {
	f := w.field
	for _, e := range f.Candidates {
		if e != f.leader.Candidate {
			f.enter(e)
		}
	}
	return f.Await(1)
}

// leadFollowed leads with the other one waiting.
func (w *writer) leadFollowed() error {
	if err := w.lead(); err != nil {
		return err
	}
	return w.enrol()
}

func (w *writer) handover() (time.Duration, error) {
	d, _, err := w.field.handover()
	return d, err
}

// clear has all leave.
func (w *writer) clear() error {
	for w.field.present > 1 {
		if _, err := w.handover(); err != nil {
			return err
		}
	}
	return w.resign()
}

func (w *writer) rawClaim() (time.Duration, error) {
	d, err := w.rawStep(w.raw.owner.claim)
	if err != nil {
		return d, err
	}
	return d, w.raw.owner.remove(w.field.Context(), rawSeat)
}

func (w *writer) rawWrite() (time.Duration, error) { return w.rawStep(w.raw.owner.write) }

func (w *writer) rawStep(do func(context.Context) error) (time.Duration, error) {
	if err := w.idle(); err != nil {
		return 0, err
	}
	return timed(func() error { return do(w.field.Context()) })()
}

func (w *writer) rawHandover() (time.Duration, error) {
	return w.raw.sample(w.field.Context(), w.idle)
}
