package mutants

import (
	"strconv"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
)

// tokenMutants break rules about tokens and epochs.
var tokenMutants = []Mutant{
	{
		Name:     "token repeats",
		Breaks:   "Two terms that follow one another can have the same token.",
		Rules:    rules{"fair": {"term/token"}, "kafka": {"term/token", "epoch/dense"}},
		campaign: claiming(func(c *elector.Claim) { c.Token = c.Token/4 + 1 }),
	}, {
		Name:   "epoch begins anew with each founder",
		Breaks: "A candidate that has met no leader begins to count from 1.",
		Rules:  rules{"kafka": {"epoch/dense", "epoch/restart", "term/token"}},
		campaign: inSession(func(s *backend.Session, o *over) {
			met := false
			answering(func(c *backend.Call) {
				if met = met || c.Entries[0].Exists(); !met && c.Entries[1].Exists() {
					c.Entries[1].Value = []byte("0")
				}
			}, backend.CallAwait)(s, o)
		}),
	}, {
		Name:   "epoch raised by two",
		Breaks: "A claim raises the epoch by two.",
		Rules:  rules{"kafka": {"epoch/dense", "epoch/stalled-claim", "epoch/restart"}},
		campaign: inSession(answering(func(c *backend.Call) {
			if epoch := &c.Entries[1]; epoch.Exists() {
				last, _ := strconv.Atoi(string(epoch.Value)) // what is no number stays refused
				epoch.Value = strconv.AppendInt(nil, int64(last+1), 10)
			}
		}, backend.CallAwait)),
	}, {
		Name:     "claim in two steps",
		Breaks:   "The epoch is raised first, and the seat taken then.",
		Rules:    rules{"kafka": {"epoch/stalled-claim"}},
		campaign: inSession(commits(inParts(1))),
	}, {
		Name:   "claim without the epoch's condition",
		Breaks: "The writes of a term are not bound to its epoch.",
		Rules:  rules{"kafka": {"epoch/raised"}},
		campaign: claiming(func(c *elector.Claim) {
			c.Conditions = []backend.Condition{backend.IfExists(c.Entry)}
		}),
	},
}
