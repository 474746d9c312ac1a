// Package history records what the candidates of elections did and saw, and checks it: valid terms never
// overlap, tokens rise, order is fair, commits are done exactly once and none after its term's end, and
// somebody leads again once faults have stopped.
//
// An [Event] is an interval: something happened at an instant between its Call and its Return. A check
// reports a violation only if every way to place the instants is wrong, so slow goroutines, stopped
// processes and late readings never cause one. It may miss some: record many histories.
//
// A [Recorder] takes events, in memory or as lines of JSON. [Record] wraps an elector.Elector so that its
// terms are recorded:
//
//	rec := history.NewRecorder(history.Logical(), "")
//	e = history.Record(e, rec, "candidate 1")
//	// campaign, lead, commit …
//	for _, v := range rec.History().Check(history.Options{}) {
//		t.Error(v)
//	}
//
// Several processes of one machine write a file each, with the clock [Machine] and [NewWriter]. [Merge]
// makes one history of them.
package history
