package explore

import "slices"

// ReplayFailure is Replay for what is expected to fail.
var ReplayFailure = replay

// Recorded are the faults that write the election's record, where a strategy looks there, and Others the
// rest. Without them it is read at any time with the same result, which is much less to explore.
var (
	Recorded = []Fault{Designate, AskTo}
	Others   = slices.DeleteFunc(slices.Clone(Faults), func(f Fault) bool { return slices.Contains(Recorded, f) })
)

// Companions that are wrong, and one that is right and acts more often than it has to.
func (c Config) WithCompanion(stopped, another, again bool) Config {
	c.companion = companion{stopped, another, again}
	return c
}
