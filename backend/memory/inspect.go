package memory

import (
	"fmt"
	"slices"
	"strings"

	"github.com/elector-go/elector/backend"
)

// Stats are counts since New, and current numbers.
type Stats struct {
	// Sessions opened, closed by their process, and dropped by the service.
	Opens, Closes, Expired uint64
	// Operations that reached the service. A commit whose request was lost counts, and counts again when it
	// is sent again.
	Gets, Lists, Predecessors, Awaits, AwaitLists, Commits, Drops uint64
	// Wakeups counts how often a change woke a blocked Await or AwaitList: the herd.
	Wakeups uint64
	// Rev is the revision of the last commit.
	Rev uint64
	// Current sessions that the service knows, entries, and watches: one for each key that a blocked Await
	// waits for, and one for each blocked AwaitList.
	Sessions, Entries, Watches int
	// Due counts the blocked Awaits and AwaitLists that a change has woken and that have not looked at it
	// yet.
	Due int
}

// Stats returns the current counts.
func (s *Service) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.stats
	out.Rev, out.Sessions = s.rev, len(s.sessions)
	return out
}

// Knows reports whether the service knows a session, by its ID: whether it has neither closed nor dropped
// it.
func (s *Service) Knows(session string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[session] != nil
}

// Behind reports whether a session, by its ID, reads a past state: see Lag.
func (s *Service) Behind(session string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.sessions[session]
	return n != nil && n.past != nil
}

// Entry returns the entry under key; its Rev is zero if there is none.
func (s *Service) Entry(key string) backend.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lookup(key)
}

// Listing returns what a session's List would.
func (s *Service) Listing(dir string) backend.Listing {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list(dir)
}

// Entries returns the children of dir: the enqueued ones first, oldest first, then the others by key. dir
// may be "/".
func (s *Service) Entries(dir string) []backend.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out, others []backend.Entry
	for n := range s.dir(dir).children() {
		if n.queued {
			out = append(out, n.entry)
		} else {
			others = append(others, n.entry)
		}
	}
	slices.SortFunc(others, func(a, b backend.Entry) int { return strings.Compare(a.Key, b.Key) })
	return append(out, others...)
}

// Dump returns all entries as text, one per line, sorted by key, for the message of a failed test.
func (s *Service) Dump() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []string
	for _, n := range s.nodes {
		e := n.entry
		if !e.Exists() {
			continue
		}
		line := fmt.Sprintf("%s rev=%d version=%d value=%q", e.Key, e.Rev, e.Version, e.Value)
		if n.owner != nil {
			line += fmt.Sprintf(" session=%s client=%s state=%v", e.Session, n.owner.client.name, n.owner.state)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
