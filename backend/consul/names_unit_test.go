package consul

import (
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
)

const id = "4ca8e74b-6350-7587-addf-a18084928f3c"

func TestOwner(t *testing.T) {
	name := nameOf(id, 0x1f, 3)
	require.Equal(t, "e-"+id+"-000000000000001f03", name)
	assert.Equal(t, id, owner("/a/b/"+name))
	assert.Equal(t, id, owner(name))
	for _, foreign := range []string{"", "e-", name[1:], name + "0", name[:len(name)-1], "/" + name + "/", strings.ToUpper(name),
		strings.Replace(name, "addf", "ad-f", 1), strings.Replace(name, "c-0", "c_0", 1), strings.Replace(name, "1f03", "1g03", 1)} {
		assert.Empty(t, owner("/a/"+foreign), foreign)
	}
}

func TestEnqueued(t *testing.T) {
	pair := func(key, session string, created uint64) *api.KVPair {
		return &api.KVPair{Key: key, Session: session, CreateIndex: created, ModifyIndex: created + 4}
	}
	first, second, third := nameOf(id, 9, 0), nameOf(id, 8, 0), nameOf(id, 8, 1)
	got := enqueued("/a", api.KVPairs{
		pair("a/"+third, id, 7), pair("a/"+second, id, 7), pair("a/"+first, id, 5),
		pair("a/"+nameOf(id, 1, 0), "", 1), // released, or put by somebody
		pair("a/"+nameOf(id, 2, 0), "another", 1),
		pair("a/b/"+nameOf(id, 3, 0), id, 1),
		pair("a/seat", id, 1),
		pair("a/", "", 1),
	})
	require.Len(t, got, 3)
	for i, name := range []string{first, second, third} {
		assert.Equal(t, "/a/"+name, got[i].Key)
	}
	assert.Equal(t, backend.Entry{Key: "/a/" + first, Rev: 5, Version: 5, Session: id}, got[0])
	assert.EqualValues(t, 9, indexOf(got[0]))
}
