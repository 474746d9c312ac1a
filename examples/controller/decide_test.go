package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestDecide(t *testing.T) {
	type ids = []int
	for _, c := range []struct {
		name    string
		leader  int
		isr     ids
		live    ids
		unclean bool
		next    int
		nextISR ids
	}{
		{"all is well", 1, ids{1, 2, 3}, ids{1, 2, 3}, false, 1, ids{1, 2, 3}},
		{"others come and go", 1, ids{1, 2, 3}, ids{1, 2, 3, 7}, false, 1, ids{1, 2, 3}},
		{"the leader dies", 1, ids{1, 2, 3}, ids{2, 3}, false, 2, ids{2, 3}},
		{"a leader that is not the first stays", 2, ids{1, 2, 3}, ids{1, 2, 3}, false, 2, ids{1, 2, 3}},
		{"the first in the order of the replicas leads", 3, ids{1, 2, 3}, ids{1, 2}, false, 1, ids{1, 2}},
		{"a live replica out of the ISR does not lead", 1, ids{1, 3}, ids{2, 3}, false, 3, ids{3}},
		{"a follower dies", 1, ids{1, 2, 3}, ids{1, 3}, false, 1, ids{1, 3}},
		{"a replica comes back", 3, ids{3}, ids{2, 3}, false, 3, ids{2, 3}},
		{"one goes, then the other comes", 1, ids{1, 2}, ids{1, 3}, false, 1, ids{1}},
		{"the last of the ISR dies", 3, ids{3}, ids{1, 2}, false, offline, ids{3}},
		{"all die at once", 1, ids{1, 2, 3}, nil, false, offline, ids{1, 2, 3}},
		{"offline stays so", offline, ids{3}, ids{1, 2}, false, offline, ids{3}},
		{"the last of the ISR comes back", offline, ids{3}, ids{2, 3}, false, 3, ids{3}},
		{"one of the last ISR comes back", offline, ids{1, 3}, ids{3}, false, 3, ids{3}},
		{"unclean: the first that lives", 3, ids{3}, ids{1, 2}, true, 1, ids{1}},
		{"unclean: in-sync ones first", 2, ids{2, 3}, ids{1, 3}, true, 3, ids{3}},
		{"unclean: nobody lives", 3, ids{3}, ids{7}, true, offline, ids{3}},
	} {
		live := make(map[int]bool)
		for _, id := range c.live {
			live[id] = true
		}
		p := partition{Leader: c.leader, LeaderEpoch: 4, ISR: c.isr, Replicas: ids{1, 2, 3}, ControllerEpoch: 9}
		want := partition{Leader: c.next, LeaderEpoch: 4, ISR: c.nextISR, Replicas: ids{1, 2, 3}, ControllerEpoch: 9}
		if !want.same(p) {
			want.LeaderEpoch = 5
		}
		assert.Equal(t, want, decide(p, live, c.unclean), c.name)
	}
}
