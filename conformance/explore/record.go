package explore

import (
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/elector-go/elector/conformance/history"
	"github.com/elector-go/elector/conformance/internal/harness"
)

// promised is what a history is checked for. Only leaders write where they commit.
func (c Config) promised() history.Options {
	return history.Options{Ordered: c.Ordered, Contexts: true, Patience: time.Second}
}

// checkHistory checks the history of a schedule that broke no other rule.
func (w *world) checkHistory() {
	var wrong []string
	for _, v := range w.history.Check(w.history.Promised) {
		wrong = append(wrong, v.String())
	}
	if len(wrong) == 0 && w.history.Linearizable(w.history.Promised).Result == porcupine.Illegal {
		wrong = append(wrong, "the claims and commits are not linearizable: no order explains all of them")
	}
	if len(wrong) > 0 {
		w.broken("history", "%s", strings.Join(wrong, "\n\t      "))
	}
}

// look records what can be seen after a step: which terms hold, and whether the commit of each exists.
func (w *world) look() {
	if w.rec == nil {
		return
	}
	w.rec.Look()
	for _, c := range w.candidates {
		if t := c.term(); t != nil && t.read.Outcome != history.OK {
			w.lookFor(t)
		}
	}
}

// lookFor reads a commit. Of the readings before it exists, the last one tells everything.
func (w *world) lookFor(t *term) {
	e := history.Event{ID: t.read.ID, Kind: history.Read, Key: t.key, Call: w.rec.Now(), Outcome: history.Refused}
	if w.svc.Entry(t.key).Exists() {
		e.ID, e.Outcome = 0, history.OK
	}
	e.Return = w.rec.Now()
	t.read = w.rec.Add(e)
}

// recordFault records a fault that is about to happen. The fault ends when the caller calls done, or, if
// a link is cut, when the link is back.
func (w *world) recordFault(ch choice) (done func()) {
	nothing := func() {}
	if w.rec == nil || ch.by == nil {
		return nothing
	}
	c, kind := ch.by, ch.kind
	switch {
	case kind == back:
		return c.healed
	case !ch.fault:
		return nothing
	case kind == Delete || kind == Revoke:
		return w.rec.During(history.Force, w.describe(ch))
	}
	end := w.rec.During(history.Fault, w.describe(ch))
	if kind == Suspend || kind == LoseReply || kind == Crash {
		c.healed = end
		return nothing
	}
	return end
}

// fail fails t with the failure, and saves its history.
func (f *Failure) fail(t testing.TB) {
	t.Helper()
	saved := "no history: the schedule ran differently when it was repeated"
	if f.History != nil {
		saved = harness.Save(t, f.History)
	}
	t.Errorf("%v\n\t%s", f, saved)
}
