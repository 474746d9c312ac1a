package history

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/elector-go/elector"
)

// A watch takes readings of a term. A term's validity and its Context only ever end, so the last reading
// at which each held and the first at which it did not are enough.
type watch struct {
	r        *Recorder
	campaign Event
	term     *elector.Term

	mu             sync.Mutex
	valid, context readings
	over           bool // neither will hold again
}

type readings struct {
	held, ended Event
	wrote       int64 // when held was last recorded
}

func (r *Recorder) watch(campaign Event, t *elector.Term) *watch {
	w := &watch{r: r, campaign: campaign, term: t}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.holding = append(r.holding, w)
	return w
}

// event returns an event that is about the term.
func (w *watch) event(kind Kind) Event {
	return Event{Kind: kind, Election: w.campaign.Election, Candidate: w.campaign.Candidate, Session: w.campaign.Session,
		Term: w.campaign.ID, Token: w.campaign.Token}
}

// Look takes a reading of all terms that are not over. Call it when a new leader begins: if an old term
// still holds, it is read after the new one has begun, and the new one after that.
func (r *Recorder) Look() {
	r.mu.Lock()
	all := slices.Clone(r.holding)
	r.mu.Unlock()
	for range 2 {
		for _, w := range slices.Backward(all) {
			w.look()
		}
	}
}

// look takes a reading: whether the Context is alive, and whether the term is valid.
func (w *watch) look() (lives, valid bool) {
	before := w.r.Now()
	lives = w.term.Context().Err() == nil
	between := w.r.Now()
	valid = w.term.Valid()
	after := w.r.Now()

	w.mu.Lock()
	defer w.mu.Unlock()
	w.take(Context, &w.context, lives, before, between)
	w.take(Valid, &w.valid, valid, between, after)
	if w.over || lives || valid {
		return lives, valid
	}
	w.over = true
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	w.r.holding = slices.DeleteFunc(w.r.holding, func(o *watch) bool { return o == w })
	return lives, valid
}

// take records a reading if it adds something to those before it.
func (w *watch) take(kind Kind, known *readings, holds bool, call, ret int64) {
	last, outcome := &known.held, OK
	switch {
	case holds && call <= last.Call:
		return // another goroutine was faster
	case holds:
		// In a file each reading is a line, and not every one is worth it.
		if w.r.out != nil && w.r.clock.Name == MachineClock && last.ID != 0 && known.ended.ID == 0 &&
			call-known.wrote < int64(w.r.pace()) {
			last.Call, last.Return = call, ret
			return
		}
		known.wrote = call
	default:
		if known.ended.ID != 0 && known.ended.Return <= ret {
			return
		}
		if w.r.out != nil && last.ID != 0 && known.wrote != last.Call {
			*last = w.r.Add(*last)
			known.wrote = last.Call
		}
		last, outcome = &known.ended, Refused
	}
	e := w.event(kind)
	e.ID, e.Call, e.Return, e.Outcome = last.ID, call, ret, outcome
	if kind == Context && !holds {
		e.Text = context.Cause(w.term.Context()).Error()
	}
	*last = w.r.Add(e)
}

func (l *log) pace() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.every
}

// follow takes readings of the term until its Context is done.
func (w *watch) follow() {
	var tick <-chan time.Time
	if every := w.r.pace(); every > 0 {
		t := time.NewTicker(every)
		defer t.Stop()
		tick = t.C
	}
	for {
		if lives, _ := w.look(); !lives {
			return
		}
		select {
		case <-tick:
		case <-w.term.Context().Done():
		}
	}
}
