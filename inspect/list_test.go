package inspect_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/inspect"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/strategy/catalog"
	"github.com/elector-go/elector/strategy/fair"
	"github.com/elector-go/elector/strategy/kafka"
)

// summaries returns the elections of a list in short form.
func summaries(l inspect.Listing) (all []string) {
	for _, v := range l.Elections {
		s := fmt.Sprintf("%s %s %d", v.Election, v.Strategy, v.Count)
		if v.Leader != nil {
			s += " " + v.Leader.ID
		}
		all = append(all, s)
	}
	return all
}

// put writes persistent keys.
func put(t *testing.T, service *memory.Service, keys ...string) {
	t.Helper()
	for _, key := range keys {
		require.NoError(t, service.Put(key, []byte("mine")))
	}
}

func TestList(t *testing.T) {
	bubble(t, inspect.Options{}, func(s *stage) {
		jobs := []string{"/jobs/fair/nested/deep fair 1 7", "/jobs/own own 1 7"}
		for _, item := range catalog.All() {
			name, listed := item.Strategy.Name(), 1
			if item.Lists {
				listed = 3
			}
			jobs = append(jobs, fmt.Sprintf("/jobs/%s %s %d 7", name, name, listed))
			for _, id := range []string{"7", "8", "9"} {
				run(s.T, s.service, item.Strategy, "/jobs/"+item.Strategy.Name(), id)
				synctest.Wait()
			}
		}
		run(s.T, s.service, own{}, "/jobs/own", "7")
		run(s.T, s.service, fair.Strategy{}, "/jobs/fair/nested/deep", "7")
		run(s.T, s.service, fair.Strategy{}, "/other", "7")
		run(s.T, s.service, kafka.Strategy{}, "/", "7")
		synctest.Wait()
		put(s.T, s.service, "/jobs/fair-state", "/jobs/notes/a", "/jobs/notes/b")

		l := must.Get(s.in.List(s.Context(), "/jobs", inspect.ListOptions{}))(s)
		slices.Sort(jobs)
		assert.Equal(s, jobs, summaries(l))
		assert.Empty(s, l.Missed)
		assert.Less(s, l.Keys, 30)
		for _, v := range l.Elections {
			assert.Nil(s, v.Trouble)
			assert.Equal(s, v.Strategy == "own", v.Unknown)
			item, _ := catalog.Named(v.Strategy)
			assert.Equal(s, !item.Lists && v.Strategy != "own", v.Hidden)
		}

		l = must.Get(s.in.List(s.Context(), "/", inspect.ListOptions{}))(s)
		assert.Equal(s, append(append([]string{"/ kafka 1 7"}, jobs...), "/other fair 1 7"), summaries(l))

		l = must.Get(s.in.List(s.Context(), "/jobs/fair/nested/deep", inspect.ListOptions{}))(s)
		assert.Equal(s, []string{"/jobs/fair/nested/deep fair 1 7"}, summaries(l))

		l = must.Get(s.in.List(s.Context(), "/nothing/here", inspect.ListOptions{}))(s)
		assert.NotNil(s, l.Elections, "in JSON it is a list")
		assert.Empty(s, l.Elections)
	})
}

// TestListIsBounded checks that a list looks at no more keys than allowed, and says what it has missed.
func TestListIsBounded(t *testing.T) {
	bubble(t, inspect.Options{}, func(s *stage) {
		for n := range 1100 {
			put(s.T, s.service, fmt.Sprintf("/many/%04d", n))
		}
		run(s.T, s.service, fair.Strategy{}, "/some", "7")
		synctest.Wait()
		before := s.service.Stats()
		l := must.Get(s.in.List(s.Context(), "/", inspect.ListOptions{Most: 20}))(s)
		after := s.service.Stats()
		assert.Equal(s, []string{"/some fair 1 7"}, summaries(l))
		assert.Equal(s, 20, l.Keys)
		require.Len(s, l.Missed, 2)
		assert.Equal(s, "/many", l.Missed[0].Key)
		assert.Contains(s, l.Missed[0].Why, "more than 1000 keys")
		assert.Contains(s, l.Missed[1].Why, "give Most")
		assert.LessOrEqual(s, after.Gets+after.Lists-before.Gets-before.Lists, uint64(50))

		require.ErrorIs(s, must.Err(s.in.List(s.Context(), "/", inspect.ListOptions{Most: -1})), elector.ErrConfig)
		require.ErrorIs(s, must.Err(s.in.List(s.Context(), "some", inspect.ListOptions{})), backend.ErrBadKey)
	})
}
