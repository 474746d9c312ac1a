package zookeeper

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// An Await that has seen the first deletion reports what the other events so far determine. Changes of
// one transaction come as one event after the other.
func TestAwaitAtADeletion(t *testing.T) {
	before := backend.Entry{Key: "/d/" + entryName(1, 5), Rev: 1, Version: 1}
	me := backend.Entry{Key: "/d/" + entryName(2, 7), Rev: 2, Version: 1}
	seat := backend.Entry{Key: "/d/seat", Rev: 3, Version: 1}
	deleted := func(e backend.Entry) zk.Event { return zk.Event{Type: zk.EventNodeDeleted, Path: e.Key} }
	written := func(e backend.Entry) zk.Event { return zk.Event{Type: zk.EventNodeDataChanged, Path: e.Key} }
	for name, c := range map[string]struct {
		known  []backend.Entry
		events []zk.Event
		stand  []bool // nil: not known without a read
	}{
		"predecessor only":         {[]backend.Entry{me, before}, []zk.Event{deleted(before)}, []bool{true, false}},
		"predecessor, then own":    {[]backend.Entry{me, before}, []zk.Event{deleted(before), deleted(me)}, []bool{false, false}},
		"own, then predecessor":    {[]backend.Entry{me, before}, []zk.Event{deleted(me), deleted(before)}, []bool{false, false}},
		"a write to own after":     {[]backend.Entry{me, before}, []zk.Event{deleted(before), written(me)}, []bool{true, false}},
		"a write to own before":    {[]backend.Entry{me, before}, []zk.Event{written(me), deleted(before)}, nil},
		"one that may be remade":   {[]backend.Entry{me, seat}, []zk.Event{deleted(seat), deleted(me)}, []bool{true, false}},
		"the other may be remade":  {[]backend.Entry{seat, before}, []zk.Event{deleted(before), deleted(seat)}, []bool{true, false}},
		"a third that is not told": {[]backend.Entry{me, before, seat}, []zk.Event{deleted(before), deleted(me)}, []bool{false, false, true}},
	} {
		s := newSession(&Config{}, new(ballot), 0)
		r := &s.watches
		a := &awaiting{known: c.known}
		w := driver.NewWaker()
		for _, e := range c.known {
			watch := r.join(w, watchKey{e.Key, dataWatch})
			watch.status, watch.entry = armed, e
			a.watches, a.reads = append(a.watches, watch), append(a.reads, 0)
		}
		for _, e := range c.events {
			r.event(e)
		}
		seen := a.atDeletion()
		require.Equal(t, c.stand == nil, seen == nil, name)
		for i, e := range seen {
			assert.Equal(t, c.stand[i], e.Exists(), "%s: %s", name, e.Key)
		}
	}
}
