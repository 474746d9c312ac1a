package main

import "fmt"

// finding is a schedule that a search finds, and that readers should know of.
type finding struct {
	name, tells string
	search
	seed   uint64 // of choices at random; 0: go through all
	broken string // a part of what the rule says
}

func findings() []finding {
	l := layout{new: newPeer, zxids: []uint64{5, 5, 5}, timing: usual, rules: right}
	l.patience = 1 // there is no time in a search
	forgets, falls, zen := l, l, l
	forgets.forgets = true
	falls.clockBack = true
	zen.new = newZen
	return []finding{{
		name:   "elected-twice",
		tells:  "FastLeaderElection: a changed vote comes after the 200 ms, and two peers of one round have the votes of a majority.\nOnly one of them can come to be followed by one.",
		search: search{layout: l, rounds: 1, timeouts: 2, most: 1e6, rule: oneElected},
		broken: "2 leads in round 1, and 3 leads in round 1",
	}, {
		name:   "two-rounds",
		tells:  "FastLeaderElection: a leader has not heard yet that its followers have gone to a later round, where another one leads.",
		search: search{layout: l, rounds: 2, timeouts: 3, most: 1e6, rule: oneAtATime},
		broken: "leads in round 2",
	}, {
		name:   "forgotten-round",
		tells:  "FastLeaderElection with the round in memory only, as in ZooKeeper: a peer that starts again makes a second leader of the same round.",
		search: search{layout: forgets, rounds: 1, timeouts: 2, restarts: 1, most: 1e6, rule: oneOfARound},
		broken: "2 and 3 are both made leaders in round 1",
	}, {
		name:   "falling-round",
		tells:  "FastLeaderElection with a round that falls when a peer joins the leader of an earlier one, as in ZooKeeper: it votes twice in one round.",
		search: search{layout: falls, rounds: 9, timeouts: 12, most: 1e7, rule: oneOfARound},
		seed:   1,
		broken: "both made leaders in round 2",
	}, {
		name:   "zen",
		tells:  "Zen's rule, whose votes have no round: one who has changed its mind counts for two leaders.",
		search: search{layout: zen, timeouts: 9, most: 1e7, rule: oneOfARound},
		seed:   1,
		broken: "are both made leaders in round 0",
	}}
}

// find runs the search. It fails if nothing is found.
func (f finding) find() (found, error) {
	var (
		was found
		err error
	)
	if f.seed > 0 {
		was = f.random(f.seed)
	} else {
		was, err = f.all()
	}
	if err == nil && was.Broken == "" {
		err = fmt.Errorf("%s: nothing found in %d states", f.name, was.States)
	}
	return was, err
}

// searchAll prints all findings.
func searchAll(say func(format string, args ...any)) error {
	for _, f := range findings() {
		was, err := f.find()
		if err != nil {
			return err
		}
		say("=== %s\n%s\n", f.name, f.tells)
		for _, line := range f.replay(was.schedule) {
			say("%s", line)
		}
		say("\n%s\n", was.Broken)
	}
	return nil
}
