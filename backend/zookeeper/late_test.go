package zookeeper_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/internal/zktest"
)

// A write that was given up, and that a follower passes on when its session has moved to another
// server, does not undo what the session has written there: the leader refuses it.
func TestLateForward(t *testing.T) {
	follower, leader, link := cutOff(t, "syncLimit=150")
	ctx, cancel := context.WithTimeout(context.Background(), wait.Patience)
	defer cancel()
	p := zktest.NewProcess(t, []string{follower.Addr(), leader.Addr()}, nil)
	first, second := p.Proxies[0], p.Proxies[1]
	second.Refuse(true)
	s, err := p.Backend.Open(ctx, backend.OpenOptions{})
	require.NoError(t, err)
	defer s.Close(ctx)
	made, err := s.Commit(ctx, nil, backend.CompareAndSet(newRoot(), nil, 0))
	require.NoError(t, err)

	link.StallToServer()
	short, end := context.WithCancel(ctx)
	defer end()
	defer first.OnRequest(func(opcode int32, _ []byte) {
		if opcode == proxytest.OpSetData {
			time.AfterFunc(100*time.Millisecond, end) // the follower has it then
		}
	})()
	_, err = s.Commit(short, nil, backend.Update(made[0], []byte("late")))
	require.ErrorIs(t, err, backend.ErrIndeterminate)
	second.Refuse(false)
	first.Refuse(true)
	first.Cut()
	later, err := s.Commit(ctx, nil, backend.Update(made[0], []byte("later")))
	require.NoError(t, err)
	link.Unstall()

	// What the follower has heard of now, it has heard after it had passed on all before.
	first.Refuse(false)
	other, err := zktest.NewProcess(t, []string{follower.Addr()}, nil).Backend.Open(ctx, backend.OpenOptions{})
	require.NoError(t, err)
	defer other.Close(ctx)
	_, err = other.Commit(ctx, nil, backend.CompareAndSet(newRoot(), nil, 0))
	require.NoError(t, err)
	got, err := other.Get(ctx, made[0].Key)
	require.NoError(t, err)
	require.Equal(t, "later", string(got.Value))
	require.True(t, got.Same(later[0]), "%+v", got)
}
