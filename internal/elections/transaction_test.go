package elections_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/internal/zktest"
	"github.com/elector-go/elector/strategy/fair"
)

// If an operator deletes the entries of the leader and its successor in one transaction, the third
// candidate leads. ZooKeeper reports one after the other, so the successor may be elected in between: then
// its term ends with ErrDeposed, and none of its writes is done.
func TestLeaderAndSuccessorDeletedAtOnce(t *testing.T) {
	t.Parallel()
	servers := zktest.Single(t)
	svc := servers.Service(ttl)(t)
	operator := zktest.Operator(t, servers.Members[0].Addr())
	ctx, cancel := context.WithTimeout(t.Context(), wait.Patience)
	defer cancel()
	var early atomic.Int64
	for round := range 12 {
		path := fmt.Sprint(svc.Root, "/", round)
		var electors []elector.Elector
		var terms []<-chan *elector.Term
		for i := range 3 {
			e, err := elector.New(elector.Config{
				Backend: svc.Client(t).Backend, Strategy: fair.Strategy{}, Election: path, ID: fmt.Sprint("c", i),
				TTL: svc.TTL, RetryMin: time.Millisecond,
			})
			require.NoError(t, err)
			term := make(chan *elector.Term, 10)
			go func() {
				defer close(term)
				for {
					got, err := e.Campaign(ctx)
					if err != nil {
						return
					}
					term <- got
					<-got.Context().Done()
				}
			}()
			electors, terms = append(electors, e), append(terms, term)
			if i == 0 {
				term <- <-term // it leads
			}
			for n := -1; n != i+1; {
				all := must.Get(e.Candidates(ctx))(t)
				n = len(all)
			}
		}
		first := <-terms[0]
		session := first.Guard().Session
		listing, err := session.List(ctx, backend.Parent(first.Guard().Conditions[0].Entry.Key))
		if err != nil || len(listing.Keys) != 3 {
			t.Fatal(listing, err)
		}
		if _, err := operator.Multi(&zk.DeleteRequest{Path: listing.Keys[0], Version: -1}, &zk.DeleteRequest{Path: listing.Keys[1], Version: -1}); err != nil {
			t.Fatal(err)
		}
		<-first.Context().Done()
		third := <-terms[2]
		require.NotNil(t, third, "the third does not lead")
		for _, term := range []<-chan *elector.Term{terms[0], terms[1]} {
			select {
			case got := <-term:
				early.Add(1)
				_, err := got.Commit(ctx, elector.Put(path+"-late", nil))
				assert.ErrorIs(t, err, elector.ErrDeposed, "the write of a deleted candidate")
				<-got.Context().Done()
				if cause := context.Cause(got.Context()); !errors.Is(cause, elector.ErrDeposed) {
					t.Errorf("the term of a deleted candidate ended with %v", cause)
				}
			default:
			}
		}
		if !third.Valid() {
			t.Error("the third leads no more:", context.Cause(third.Context()))
		}
		for _, e := range electors {
			assert.NoError(t, e.Close(ctx))
		}
	}
	t.Logf("in %d of 12 rounds a deleted candidate had a term", early.Load())
}
