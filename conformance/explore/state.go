package explore

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/elector-go/elector/backend"
)

// A stateKey identifies a state: two worlds with the same key continue in the same way.
type stateKey [16]byte

// state returns the key of all that the future depends on: what is in the service, and of each candidate
// the results since it last started from scratch, which with its program determine where it is. Revisions
// are replaced by their rank, so that worlds are equal that differ in the order of independent steps.
// Candidates are sorted, so that worlds are equal that differ in swapped candidates. places maps each
// letter to the letter of its place in that order.
func (w *world) state() (key stateKey, places map[byte]byte) {
	text, places := w.stateText()
	sum := sha256.Sum256(text)
	return stateKey(sum[:16]), places
}

func (w *world) stateText() (b []byte, places map[byte]byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	entries := w.entries()
	rank := w.ranks(entries)
	b = fmt.Appendf(nil, "faults %d", w.faults)
	if !w.foreign() { // otherwise the token is in the service
		b = fmt.Appendf(b, " token %d", rank(w.token))
	}
	for _, e := range entries {
		if e.Session == "" && !strings.HasPrefix(e.Key, commits) {
			b = fmt.Appendf(b, "\n%s %d %q", w.settled(e.Key), e.Version, w.settled(string(e.Value)))
		}
	}
	if w.catchUp != nil {
		b = append(b, "\nbehind"...)
		for _, e := range w.past {
			switch {
			case e.Session != "":
				b = fmt.Appendf(b, ";%s %d v%d%s", w.settled(backend.Parent(e.Key)), rank(e.Rev), e.Version, says(e))
			case !strings.HasPrefix(e.Key, commits):
				b = fmt.Appendf(b, ";%s %d %q", w.settled(e.Key), e.Version, w.settled(string(e.Value)))
			}
		}
	}
	sections := make([]section, len(w.candidates))
	for i, c := range w.candidates {
		sections[i] = section{c.letter, w.describeCandidate(c, entries, rank)}
	}
	slices.SortFunc(sections, func(a, b section) int { return bytes.Compare(a.text, b.text) })
	places = make(map[byte]byte)
	for i, s := range sections {
		places[s.letter] = byte('a' + i)
		b = append(append(b, '\n'), s.text...)
	}
	return b, places
}

// forgets reports whether a candidate's past no longer makes a difference.
func (c *candidate) forgets() bool { return c.crashed || c.phase == finished && !c.cut }

type section struct {
	letter byte
	text   []byte
}

func (w *world) describeCandidate(c *candidate, entries []backend.Entry, rank func(uint64) int) []byte {
	var b []byte
	for _, e := range entries {
		if o := w.owners[e.Session]; o.by == c {
			b = fmt.Appendf(b, "%s %d v%d%s -%d %v;", w.settled(backend.Parent(e.Key)), rank(e.Rev), e.Version, says(e), c.opened-o.nr, w.deleted[e.Rev])
			for _, rev := range mentions(e) {
				b = fmt.Appendf(b, "%d;", rank(rev))
			}
		}
	}
	for _, s := range c.sessions {
		if s == c.session || s.State() != backend.Lost {
			b = fmt.Appendf(b, "%v;", s.State())
		}
		if w.svc.Behind(s.ID()) {
			b = append(b, "behind "...)
		}
		at := w.expiry(s, entries)
		revoked := w.revoked(s)
		if revoked {
			b = append(b, "revoked "...)
		}
		if s.State() == backend.Live && !revoked && w.mayGoWrong() {
			at = s.Deadline() // its link may still be cut
		}
		if !at.IsZero() {
			b = fmt.Appendf(b, "%v;", time.Until(at).Round(time.Millisecond))
		}
	}
	for n, r := range w.late {
		if r.by == c {
			of := r.session.ID()
			b = fmt.Appendf(b, "late %d %s %v -%d %v;", n, r.is, time.Until(r.at).Round(time.Millisecond), c.opened-w.owners[of].nr, w.svc.Knows(of))
		}
	}
	for _, leader := range w.candidates {
		if t := leader.term(); t != nil && t.heir == c && t.Context().Err() == nil {
			b = fmt.Appendf(b, "heir of %d;", rank(t.claim.Rev))
		}
	}
	if w.cfg.Distinct || w.mayDesignate() { // by its ID
		b = append(append(b, c.id...), ' ')
	}
	if w.cfg.companion != (companion{}) {
		b = fmt.Appendf(b, "executed %d ", c.executed)
	}
	if c.crashed {
		return append(b, "crashed"...) // the rest is gone with it
	}
	b = fmt.Appendf(b, "%s led %d cut %v cancelled %v unfit %v flight %v", c.phase, c.led, c.cut, c.cancelled, c.app.unfit, names(c.flight))
	if t := c.term(); t != nil && c.phase != campaigning && c.phase != finished {
		b = fmt.Appendf(b, " %v %v %s asked %v", t.Context().Err() == nil, t.returned, class(t.outcome), t.asked)
	}
	var waiting []*call
	for _, k := range w.parked {
		if k.by == c {
			waiting = append(waiting, k)
		}
	}
	b = fmt.Appendf(b, " waiting %v", names(waiting))
	if c.forgets() {
		return b
	}
	for _, is := range slices.Sorted(maps.Keys(c.results)) {
		b = append(append(b, ' '), is...)
		for _, n := range c.results[is] {
			b = append(append(b, ' '), n.text...)
			if n.list != nil {
				b = fmt.Appendf(b, " present %v", n.list.Rev == w.svc.Listing(n.list.Dir).Rev)
				if w.catchUp != nil {
					b = fmt.Appendf(b, " past %v", n.list.Rev == w.lists[n.list.Dir])
				}
			}
			for _, rev := range n.revs {
				b = fmt.Appendf(b, ",%d", rank(rev))
			}
		}
	}
	return b
}

// names returns the calls' names, sorted.
func names(calls []*call) (all []string) {
	for _, k := range calls {
		name := k.is + k.says
		if k.applied {
			name += "!"
		}
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// settled replaces the random name of the directory that candidates have founded.
func (w *world) settled(text string) string {
	if !w.cfg.Found {
		return text
	}
	for _, e := range w.svc.Entries(Election) {
		text = strings.ReplaceAll(text, e.Key[len(Election)+1:], "D")
	}
	return text
}

// ranks numbers the revisions that any process may still compare.
func (w *world) ranks(entries []backend.Entry) func(uint64) int {
	var revs []uint64
	if !w.foreign() {
		revs = append(revs, w.token)
	}
	for _, e := range entries {
		if e.Session != "" {
			revs = append(revs, e.Rev)
		}
		revs = append(revs, mentions(e)...)
	}
	for _, c := range w.candidates {
		if t := c.term(); t != nil && t.heir != nil && t.Context().Err() == nil {
			revs = append(revs, t.claim.Rev)
		}
	}
	if w.catchUp != nil {
		for _, e := range w.past {
			if e.Session != "" {
				revs = append(revs, e.Rev)
			}
		}
	}
	for _, c := range w.candidates {
		if c.forgets() {
			continue
		}
		for _, results := range c.results {
			for _, n := range results {
				revs = append(revs, n.revs...)
			}
		}
	}
	slices.Sort(revs)
	revs = slices.Compact(revs)
	return func(rev uint64) int {
		at, _ := slices.BinarySearch(revs, rev)
		if rev == 0 {
			return -1
		}
		return at
	}
}
