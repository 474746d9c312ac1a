package etcd

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// What a session writes after a restoration, and before its next heartbeat, does not hide what it had written before.
func TestWrites(t *testing.T) {
	const lease = 7
	var h writes
	created, put := write{key: "seat", rev: 1, lease: lease}, write{key: "record", rev: 2}
	h.add(created)
	h.add(put)
	_, mark := h.held()
	deleted := write{key: "seat", rev: 3, deleted: true}
	h.add(deleted)
	h.settle(mark, lease)
	all, mark := h.held()
	assert.Equal(t, []write{created, put, deleted}, all)
	h.settle(mark, lease)
	all, _ = h.held()
	assert.Equal(t, []write{created, deleted}, all)

	again := write{key: "seat", rev: 2, lease: lease} // in the history that was restored
	h.add(again)
	all, mark = h.held()
	assert.Equal(t, []write{created, deleted, again}, all)
	h.settle(mark, lease)
	all, _ = h.held()
	assert.Equal(t, []write{deleted, again}, all)

	for i := range int64(3 * writesMost) {
		h.add(write{key: "record", rev: 4 + i})
	}
	all, _ = h.held()
	assert.Len(t, all, writesMost)
	h.settle(mark, lease) // of which none is held any more
	now, _ := h.held()
	assert.Equal(t, all, now)
}
