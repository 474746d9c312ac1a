package strategy

// Traits are the promises of a strategy beyond those that all strategies keep. The zero value promises
// nothing more: nobody knows who leads next, a change of leader wakes few, and the leader leads by the entry
// with which it has waited.
//
// The suite of package conformance holds a strategy to its traits, and to nothing else. Package
// strategy/catalog has the traits of each strategy of this library.
type Traits struct {
	// Ordered: candidates lead in the order of their arrival. If Ranked is set, too, candidates of equal
	// rank do.
	Ordered bool
	// Lists: each candidate that waits has an entry of its own, and Candidates lists it. Without it,
	// Candidates lists only the leader.
	Lists bool
	// Seat: a candidate leads by creating one entry, the seat, which is the same for all. Between two terms
	// the seat is vacant.
	Seat bool
	// Ranked: a candidate has a rank, and leads before those of lower rank. With a Seat, the best of those
	// that wait may watch one entry more than the others.
	Ranked bool
	// Herd: a change of leader wakes every candidate, once. If Ordered is set, too, candidates watch the
	// directory, and every candidate that comes or goes wakes them all. Without Herd, a change wakes few. If
	// Ordered is set then, and Seat is not, it must wake one, and tell at most one other that it is next.
	Herd bool
	// LooksFirst: a candidate reads who leads before it makes an offer, and makes none while somebody leads.
	LooksFirst bool
	// Dense: tokens are 1, 2, 3 …, each the last one plus one. Such a token is kept in the service, and
	// starts again when an operator deletes it together with the election.
	Dense bool
	// StepsAside: on a transfer, the candidates between the leader and the heir go to the end of the line,
	// each once, before the leader goes (Hooks.Aside). Without it they keep their places, and are passed
	// over.
	StepsAside bool
	// Numeric: an ID is a decimal number from 0 to 2147483647. Any other is refused.
	Numeric bool
}
