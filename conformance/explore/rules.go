package explore

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/strategy"
)

// rules are the texts that a failure prints.
var rules = map[string]string{
	"one-holder":   "At no instant are two terms valid, unless an operator took a seat away.",
	"tokens-rise":  "Tokens rise in the order in which terms begin.",
	"order":        "A term begins only when no older entry of a candidate exists in the same directory.",
	"own-entry":    "When a strategy reports a win, its own entry exists and is of the current session. When a term begins, its session is not lost.",
	"fenced":       "A commit is applied only while its term's claim exists.",
	"exactly-once": "A commit that succeeded was applied once, and one that was refused was not applied.",
	"fit":          "No term begins while its application is not fit, and a candidate that is not fit has no entry that blocks others.",
	"edges":        "Each term that was reported as elected is reported as ended once.",
	"progress":     "When all faults are over, each candidate that stands eventually leads.",
	"ghost":        "When all candidates have gone, no ephemeral entry is left.",
	"leftover":     "When all electors are closed, no session, watch or goroutine is left.",
	"campaign":     "Faults of sessions and links end no campaign, and a commit fails only with ErrDeposed or ErrIndeterminate.",
	"endless":      "Every schedule ends.",
	"history":      "The history of what the candidates did and saw passes the checks of package history.",
	"invariant":    "The invariant of the Config holds after every step.",
}

// broken notes the first rule that was broken.
func (w *world) broken(rule, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.brokenLocked(rule, format, args...)
}

func (w *world) brokenLocked(rule, format string, args ...any) {
	if w.failure == nil {
		w.failure = &Failure{Rule: rule, Saw: fmt.Sprintf(format, args...)}
		w.tracef("      rule %s is broken: %s", rule, w.failure.Saw)
	}
}

// elected checks a term that begins, with w.mu locked.
func (w *world) elected(c *candidate, token uint64) {
	w.tracef("      %s: elected, token %d", c, token)
	if w.over || c.crashed || w.deleted[c.claim.Rev] {
		return // see exempt
	}
	if token <= w.token {
		w.brokenLocked("tokens-rise", "%s is elected with token %d, after token %d", c, token, w.token)
	}
	w.token = max(w.token, token)
	if c.app.unfit {
		w.brokenLocked("fit", "%s is elected though it is not fit", c)
	}
	if c.session.State() == backend.Lost {
		w.brokenLocked("own-entry", "%s is elected though its session is lost", c)
	}
	for _, other := range w.candidates {
		if t := other.term(); t != nil && other != c && t.Valid() && !w.exempt(t) {
			w.brokenLocked("one-holder", "%s is elected with token %d while %s's term %d is valid", c, token, other, t.Token())
		}
	}
	for _, e := range w.entries() {
		if w.cfg.Ordered && e.Session != "" && e.Rev < c.claim.Rev && backend.Parent(e.Key) == backend.Parent(c.claim.Key) {
			w.brokenLocked("order", "%s is elected with %s while %s exists", c, w.name(c.claim), w.name(e))
		}
	}
}

// term returns the candidate's latest term, or nil.
func (c *candidate) term() *term {
	if len(c.terms) == 0 {
		return nil
	}
	return c.terms[len(c.terms)-1]
}

// exempt reports whether the term's process has crashed, or an operator has given its seat away. In the
// latter case the term ends when the notice arrives, which may be after the next term has begun.
func (w *world) exempt(t *term) bool { return t.by.crashed || w.deleted[t.claim.Rev] }

// standing reports for each latest term whether its claim exists in the service.
func (w *world) standing() map[*term]bool {
	held := make(map[*term]bool)
	for _, c := range w.candidates {
		if t := c.term(); t != nil {
			held[t] = w.svc.Entry(t.claim.Key).Rev == t.claim.Rev
		}
	}
	return held
}

// check checks the world after a step. held is the result of standing before it.
func (w *world) check(held map[*term]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var holds []string
	for _, c := range w.candidates {
		t := c.term()
		if t == nil {
			continue
		}
		w.checkCommit(t)
		if t.Context().Err() == nil && !w.exempt(t) {
			holds = append(holds, fmt.Sprintf("%s's term %d", c, t.Token()))
		}
		if !w.applied[t.key] && w.svc.Entry(t.key).Exists() {
			w.applied[t.key] = true
			if stood, known := held[t]; known && !stood {
				w.brokenLocked("fenced", "%s's commit of term %d is applied, though its claim was gone", c, t.Token())
			}
		}
	}
	w.checkUnfit()
	if len(holds) > 1 {
		w.brokenLocked("one-holder", "%s are valid at once", strings.Join(holds, " and "))
	}
	if w.cfg.Invariant != nil {
		if err := w.cfg.Invariant(w.svc); err != nil {
			w.brokenLocked("invariant", "%v", err)
		}
	}
}

// checkUnfit looks for entries of unfit candidates that do nothing about them.
func (w *world) checkUnfit() {
	if _, stand := w.cfg.Strategy().(strategy.UnfitStands); stand {
		return
	}
	for _, c := range w.candidates {
		acts := slices.ContainsFunc(w.parked, func(k *call) bool { return k.by == c }) ||
			slices.ContainsFunc(w.late, func(r lateRequest) bool { return r.by == c })
		if !c.app.unfit || c.phase != campaigning || c.cut || c.crashed || acts || c.session.State() != backend.Live {
			continue
		}
		for _, e := range w.entries() {
			if e.Session == c.session.ID() {
				w.brokenLocked("fit", "%s is not fit, but %s exists", c, w.name(e))
			}
		}
	}
}

// checkEnd checks the world when nothing is left to happen.
func (w *world) checkEnd() {
	w.mu.Lock()
	defer w.mu.Unlock()
	var waiting []string
	for _, c := range w.candidates {
		if !c.crashed && c.phase != finished {
			waiting = append(waiting, fmt.Sprintf("%s is still %s", c, c.phase))
		}
	}
	if len(waiting) > 0 && len(waiting) >= w.cfg.Quorum {
		w.brokenLocked("progress", "no step is left, but %s", strings.Join(waiting, ", "))
		w.tracef("      the service has:\n%s", w.svc.Dump())
	}
	for _, e := range w.entries() {
		if by := w.owners[e.Session].by; e.Session != "" && (by == nil || by.crashed || by.phase == finished) {
			w.brokenLocked("ghost", "%s is left", w.name(e))
		}
	}
	for _, c := range w.candidates {
		if !c.crashed && c.begun != c.ended {
			w.brokenLocked("edges", "%s was elected %d times, but %d terms have ended", c, c.begun, c.ended)
		}
	}
}

func (w *world) checkCommit(t *term) {
	there := w.svc.Entry(t.key).Exists()
	switch {
	case !t.returned: // its process crashed meanwhile
	case t.outcome == nil && !there:
		w.brokenLocked("exactly-once", "%s's commit of term %d succeeded, but its entry does not exist", t.by, t.Token())
	case errors.Is(t.outcome, elector.ErrDeposed) && there:
		w.brokenLocked("exactly-once", "%s's commit of term %d was refused, but its entry exists", t.by, t.Token())
	}
}

// Dense is the Invariant of strategy/kafka: the epoch is the number of its claims.
func Dense(svc *memory.Service) error {
	e := svc.Entry(Election + "/controller_epoch")
	if e.Exists() && string(e.Value) != fmt.Sprint(e.Version) {
		return fmt.Errorf("epoch is %q after %d claims", e.Value, e.Version)
	}
	return nil
}
