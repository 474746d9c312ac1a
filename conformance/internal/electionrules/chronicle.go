package electionrules

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/elector-go/elector/conformance/history"
	"github.com/elector-go/elector/conformance/internal/harness"
)

// A chronicle records what all candidates of an election did and saw, and what a rule did to them. Its
// clock is a counter, because time may be fake.
type chronicle struct {
	*history.Recorder
	began time.Time

	promised history.Options

	mu    sync.Mutex
	wrong []string // found while recording
}

func newChronicle(election string, promised history.Options) *chronicle {
	return &chronicle{
		Recorder: history.NewRecorder(history.Logical(), "").In(election), began: time.Now(), promised: promised,
	}
}

// note adds a line to what is printed when a rule fails.
func (h *chronicle) note(format string, args ...any) {
	h.Note(fmt.Sprintf("%10v  ", time.Since(h.began).Round(10*time.Microsecond)) + fmt.Sprintf(format, args...))
}

// blame records a violation, for a goroutine that must not fail the rule itself.
func (h *chronicle) blame(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wrong = append(h.wrong, fmt.Sprintf(format, args...))
}

// tail returns the last lines.
func (h *chronicle) tail() string {
	const most = 60
	var lines []string
	for _, e := range h.History().Events {
		if e.Kind == history.Note {
			lines = append(lines, e.Text)
		}
	}
	if len(lines) > most {
		lines = append([]string{"…"}, lines[len(lines)-most:]...)
	}
	return strings.Join(lines, "\n\t")
}

// order returns the candidates that led, in order.
func (h *chronicle) order() (led []string) {
	for _, t := range h.History().Terms() {
		led = append(led, t.Candidate)
	}
	return led
}

// count returns the number of terms so far.
func (h *chronicle) count() int { return len(h.order()) }

// check returns what is wrong with the history, one line per violation.
func (h *chronicle) check() string {
	all := h.History()
	h.mu.Lock()
	lines := slices.Clone(h.wrong)
	h.mu.Unlock()
	for _, v := range all.Check(h.promised) {
		lines = append(lines, v.String())
	}
	if all.Linearizable(h.promised).Result == porcupine.Illegal {
		lines = append(lines, "the claims are not linearizable: no order of them is that of a lock with rising tokens")
	}
	return strings.Join(lines, "\n\t      ")
}

// save writes the history to a file that outlives the test, and returns a text that says where it is.
func (h *chronicle) save(t testing.TB) string {
	t.Helper()
	all := h.History()
	all.Promised = h.promised
	return harness.Save(t, all)
}

// name returns the candidate's name in the history: its ID, if no other candidate has it.
func (a *arena) name(id string) string {
	if slices.ContainsFunc(a.candidates, func(c *candidate) bool { return c.id == id }) {
		return fmt.Sprintf("%s again, number %d", id, len(a.candidates)+1)
	}
	return id
}
