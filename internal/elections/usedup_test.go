package elections_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/conformance/history"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/internal/zktest"
	"github.com/elector-go/elector/strategy/catalog"
)

// If candidates of a real server pass the end of a directory's numbers, all in parallel, there are never
// two valid terms, and each leads as often as it wants to, at the end in another directory.
func TestOverTheEndOfZooKeepersNumbers(t *testing.T) {
	for _, item := range catalog.All() {
		strategy := item.Strategy
		if !item.Ordered {
			continue // its candidates have no numbers
		}
		t.Run(strategy.Name(), func(t *testing.T) {
			t.Parallel()
			svc := zktest.Single(t).Service(ttl)(t)
			ctx, cancel := context.WithTimeout(t.Context(), wait.Patience)
			defer cancel()
			rec := history.NewRecorder(history.Logical(), "").In(svc.Root)
			rec.LookEvery(time.Millisecond)
			stand := func(id string) elector.Elector {
				cfg := elector.Config{
					Backend: svc.Client(t).Backend, Strategy: strategy, Election: svc.Root, ID: id,
					TTL: svc.TTL, RetryMin: time.Millisecond, RetryMax: 100 * time.Millisecond,
				}
				cfg.Hooks = rec.Hooks(id, elector.Hooks{})
				e := must.Get(elector.New(cfg))(t)
				t.Cleanup(func() { _ = e.Close(context.WithoutCancel(ctx)) })
				return history.Record(e, rec, id)
			}
			var dirs sync.Map
			lead := func(e elector.Elector) error {
				term, err := e.Campaign(ctx)
				if err != nil {
					return err
				}
				key := term.Guard().Conditions[0].Entry.Key
				dirs.Store(key[:strings.LastIndexByte(key, '/')], true)
				if _, err := term.Commit(ctx, elector.Put(svc.Root+"-state", []byte(fmt.Sprint(term.Token())))); err != nil {
					return err
				}
				time.Sleep(5 * time.Millisecond) // so that another might be elected meanwhile
				return term.Resign(ctx)
			}
			founder := stand("founder")
			require.NoError(t, errors.Join(lead(founder), founder.Close(ctx)))
			dirs.Range(func(dir, _ any) bool {
				require.NoError(t, svc.UseUp(dir.(string), 15))
				return true
			})
			var all sync.WaitGroup
			for i := range 10 {
				e := stand(fmt.Sprintf("c%d", i))
				all.Go(func() {
					for range 4 {
						if err := lead(e); err != nil {
							t.Errorf("c%d: %v", i, err)
						}
					}
				})
			}
			all.Wait()
			for _, v := range rec.History().Check(history.Options{Ordered: true}) {
				t.Error(v)
			}
			n := 0
			dirs.Range(func(any, any) bool { n++; return true })
			if n != 2 {
				t.Errorf("they led in %d directories, want the one that is used up and the next", n)
			}
		})
	}
}
