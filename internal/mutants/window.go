package mutants

import (
	"time"

	"github.com/elector-go/elector/backend"
)

// windowMutants break rules about the trust window.
var windowMutants = []Mutant{
	{
		Name:   "window anchored at the answer",
		Breaks: "Heartbeats take a quarter of the timeout on their way, and the deadline counts from the answer instead of the sending.",
		Rules:  rules{Backend: {"session/suspended-too-long"}},
		session: calls(func(s *backend.Session, o *over) {
			o.deadline = func() time.Time { return s.Deadline().Add(s.TTL() / 4) }
		}),
	}, {
		Name:    "window that never ends",
		Breaks:  "The deadline is ahead of the clock whenever somebody looks, whatever was heard of the session.",
		Rules:   rules{Backend: {"session/suspended-too-long", "session/expired"}, "fair": {"loss/deadline", "fence/overdue"}},
		session: calls(aheadOfClock),
		trusted: calls(aheadOfClock),
	}, {
		Name:   "window not extended",
		Breaks: "The deadline stays where it was when the session was opened, however many heartbeats are answered.",
		Rules:  rules{Backend: {"session/deadline"}, "fair": {"loss/short-cut-held"}},
		session: calls(func(s *backend.Session, o *over) {
			first := s.Deadline()
			o.deadline = func() time.Time { return first }
		}),
	},
}

func aheadOfClock(s *backend.Session, o *over) {
	o.deadline = func() time.Time { return time.Now().Add(s.TTL()) }
}
