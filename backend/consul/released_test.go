package consul_test

import (
	"testing"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/consultest"
	"github.com/elector-go/elector/strategy/fair"
)

// release unlocks a key by hand: it stays, and nothing removes it any more.
func (f *fixture) release(e backend.Entry) {
	f.t.Helper()
	released, _, err := f.operator().KV().Release(&api.KVPair{Key: e.Key[1:], Session: e.Session, Value: e.Value}, nil)
	require.NoError(f.t, err)
	require.True(f.t, released)
}

// An entry in the queue that is nobody's any more is gone, for all who look.
func TestReleasedFromTheQueue(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	o := f.another()
	before, me := f.enqueue(o.s), f.enqueue(f.s)
	waiting, theirs := f.await(me, before), o.await(before)
	p, err := f.s.Predecessor(f.ctx, me)
	require.NoError(t, err)
	assert.True(t, p.Same(before))
	f.release(before)
	now, err := receive(f, waiting)
	require.NoError(t, err)
	assert.True(t, now[0].Same(me))
	assert.False(t, now[1].Exists())
	now, err = receive(o, theirs)
	require.NoError(t, err)
	assert.False(t, now[0].Exists())
	for _, s := range []*backend.Session{f.s, o.s, f.another().s} {
		p, err = s.Predecessor(f.ctx, me)
		require.NoError(t, err)
		assert.False(t, p.Exists())
		_, err = s.Get(f.ctx, before.Key)
		require.ErrorIs(t, err, backend.ErrNoEntry)
		_, err = s.Commit(f.ctx, []backend.Condition{backend.IfExists(before)})
		require.ErrorIs(t, err, backend.ErrCondition)
	}
	require.NoError(t, o.s.Discard(o.ctx, before))
}

// A leader whose entry an operator releases leads no longer than one whose entry is
// deleted.
func TestReleasedLeader(t *testing.T) {
	t.Parallel()
	f := processOn(t, consultest.Options{}, sharedServer(t))
	election := newRoot()
	term := f.campaign(f.stand(f.Backend, fair.New(), election))
	f.release(term.Guard().Conditions[0].Entry)
	second := f.campaign(f.stand(f.Backend, fair.New(), election))
	assert.Greater(t, second.Token(), term.Token())
	f.ends(term, elector.ErrDeposed)
	require.True(t, second.Valid())
}
