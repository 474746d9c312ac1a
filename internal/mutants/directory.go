package mutants

import (
	"slices"

	"github.com/elector-go/elector/backend"
)

// directoryMutants break the recipe in which all watch the directory.
var directoryMutants = []Mutant{
	{
		Name:   "listed once",
		Breaks: "A candidate remembers who stood before it when it came, and leads when that one goes, whoever else is left.",
		Rules:  rules{"parentwatch": {"term/order", "leave/withdraw", "data/predecessor-gone"}},
		campaign: listed(func(me func() string) func(backend.Listing) backend.Listing {
			before := ""
			return func(l backend.Listing) backend.Listing {
				i := slices.Index(l.Keys, me())
				switch {
				case i > 0 && before == "":
					before = l.Keys[i-1]
				case i > 0 && !slices.Contains(l.Keys, before):
					l.Keys = l.Keys[i:]
				}
				return l
			}
		}),
	}, {
		Name:   "win as the second",
		Breaks: "A candidate leads when one other stands before it.",
		Rules:  rules{"parentwatch": {"term/order", "data/waiting-deleted"}},
		// Those who lead at once take turns without end, at one instant.
		Endless: []string{"run/failing-candidates"},
		campaign: listed(func(me func() string) func(backend.Listing) backend.Listing {
			return func(l backend.Listing) backend.Listing {
				if slices.Index(l.Keys, me()) == 1 {
					l.Keys = l.Keys[1:]
				}
				return l
			}
		}),
	}, {
		Name:   "win without being listed",
		Breaks: "A candidate that does not find its own entry in the listing takes it for the oldest.",
		Rules:  rules{"parentwatch": {"data/waiting-deleted", "loss/at-handover", "loss/after-handover"}},
		campaign: listed(func(me func() string) func(backend.Listing) backend.Listing {
			return func(l backend.Listing) backend.Listing {
				if !slices.Contains(l.Keys, me()) {
					l.Keys = append([]string{me()}, l.Keys...)
				}
				return l
			}
		}),
	},
}

// listed is the campaign of a mutant that makes something else of each listing. me is the
// key of its entry.
func listed(worsen func(me func() string) func(backend.Listing) backend.Listing) campaigner {
	return inSession(func(s *backend.Session, o *over) {
		me := ""
		change := worsen(func() string { return me })
		all(
			answering(func(c *backend.Call) {
				if c.Ops[0].Kind == backend.OpEnqueue {
					me = c.Entries[0].Key
				}
			}, backend.CallCommit),
			answering(func(c *backend.Call) { c.Listing = change(c.Listing) }, backend.CallList, backend.CallAwaitList),
		)(s, o)
	})
}
