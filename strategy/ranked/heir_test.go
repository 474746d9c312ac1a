package ranked_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/election"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/strategy/ranked"
)

// After a failed transfer, which may or may not have named its heir, nobody is named: otherwise the worst
// candidate might lead after a crash long afterwards.
func TestFailedTransferNamesNobody(t *testing.T) {
	for _, late := range []func(process *memory.Client){
		func(p *memory.Client) { p.DelayReply(memory.Key("/e"), 1500*time.Millisecond) },
		func(p *memory.Client) { p.DelayRequest(memory.Key("/e"), 1500*time.Millisecond) },
	} {
		inCluster(t, ranked.Strategy{}, func(c *cluster) {
			c.join("a", 5)
			c.join("b", 4)
			c.join("worst", 1)
			ctx, cancel := context.WithTimeout(c.t.Context(), time.Second)
			defer cancel()
			late(c.members["a"].process)
			require.Error(t, c.members["a"].term.Load().Transfer(ctx, "worst", nil))
			c.pass(time.Hour)
			c.leads("a")
			c.kill("a")
			c.pass(sessionTime)
			c.led("a", "b")
		})
	}
}

var errWorks = errors.New("the work goes on")

// works is for transfers after which the leader leads on.
func works() error { return errWorks }

// A leader that does not know yet that another has the seat transfers nothing, and asks no more.
func TestTransferByADeposedLeader(t *testing.T) {
	inCluster(t, ranked.Strategy{}, func(c *cluster) {
		c.join("a", 5)
		c.join("b", 4)
		for _, m := range c.members {
			defer m.process.HoldWakeups()()
		}
		other := must.Get(c.service.Open(c.t.Context(), backend.OpenOptions{TTL: time.Minute}))(t)
		seat := c.candidates()[0].Entry
		c.service.Delete(seat.Key)
		must.Get(other.Commit(c.t.Context(), nil, backend.CreateEphemeral(seat.Key, seat.Value)))(t)
		assert.ErrorIs(t, c.members["a"].term.Load().Transfer(c.t.Context(), "b", works), elector.ErrDeposed)
		assert.False(t, c.members["a"].term.Load().Valid())
		require.NoError(t, other.Close(c.t.Context()))
	})
}

// A leader that was asked to go for one candidate cannot be asked for another: the caller gets an error.
func TestAskedForAnother(t *testing.T) {
	inCluster(t, ranked.Strategy{}, func(c *cluster) {
		c.join("a", 5)
		c.join("b", 4)
		c.join("c", 3)
		release := c.members["a"].process.HoldWakeups() // it does not hear of it yet
		ask := func(to string) error {
			_, err := election.Ask(c.t.Context(), c.service, c.set, "/e", election.Request{By: "operator", To: to})
			return err
		}
		require.NoError(t, ask("c"))
		require.NoError(t, ask("c"))
		require.NoError(t, ask(""))
		require.ErrorIs(t, ask("b"), elector.ErrAsked)
		require.ErrorContains(t, ask("a"), "leads already")
		c.join("never", -1)
		require.ErrorContains(t, ask("never"), "never leads")
		release()
		c.led("a", "c")
	})
}

// An operator empties the record while somebody leads. Nobody else leads until that leader goes.
func TestRecordIsEmptied(t *testing.T) {
	inCluster(t, ranked.Strategy{}, func(c *cluster) {
		c.join("a", 5)
		c.join("b", 4)
		c.join("c", 3)
		require.NoError(t, c.service.Put("/e", nil))
		c.pass(time.Hour)
		c.led("a")
		assert.True(t, c.members["a"].term.Load().Valid())
		c.kill("a")
		c.pass(time.Minute)
		require.Len(t, c.terms, 2) // any of those that founded the election again
	})
}

// The election moves to another directory when the first one takes no more entries: the designated candidate
// still is designated.
func TestDesignationOutlivesTheDirectory(t *testing.T) {
	inCluster(t, ranked.Strategy{}, func(c *cluster) {
		c.join("a", 5)
		c.designate("b")
		dir := backend.Parent(c.candidates()[0].Entry.Key)
		c.service.UseUp(dir, 0)
		c.join("c", 4)
		c.leave("a")
		c.pass(time.Minute)
		c.leads("c")
		require.NotEqual(t, dir, backend.Parent(c.candidates()[0].Entry.Key))
		require.NoError(t, election.Visit(c.t.Context(), c.service, c.set, "/e", func(e *election.Election, s *backend.Session) error {
			record, _, err := e.Record(c.t.Context(), s)
			assert.Equal(t, "b", record.Designated.ID)
			return err
		}))
	})
}

// A mistake in a designation written by hand keeps nobody from leading.
func TestMistypedDesignation(t *testing.T) {
	for _, slip := range []string{`"b"`, `{"id":7}`, `[]`} {
		inCluster(t, ranked.Strategy{}, func(c *cluster) {
			c.join("a", 5)
			c.join("b", 4)
			record := c.service.Entry("/e").Value
			mistyped := append(append(record[:len(record)-1:len(record)-1], `,"designated":`+slip...), '}')
			require.NoError(t, c.service.Put("/e", mistyped))
			c.join("c", 6)
			c.leave("a")
			c.led("a", "c")
			require.NoError(t, election.Designate(c.t.Context(), c.service, c.set, "/e", election.Designation{ID: "b"}))
			c.leave("c")
			c.led("a", "c", "b")
		})
	}
}
