package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/inspect"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/strategy/fair"
)

// TestSpans holds what the page's line of terms consists of.
func TestSpans(t *testing.T) {
	start := time.Now()
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	led := func(s int, id string, token uint64) inspect.View {
		return inspect.View{Strategy: "fair", At: at(s), Leader: &inspect.Leader{ID: id, Token: token}}
	}
	var f followed
	f.see(led(0, "a", 5))
	f.see(led(1, "a", 5)) // perhaps its value has changed
	f.see(inspect.View{Strategy: "fair", At: at(2)})
	f.see(led(3, "b", 1<<63))
	f.see(inspect.View{Strategy: "fair", At: at(3), Trouble: &inspect.Trouble{Since: at(5), Why: "out of touch"}})
	assert.Equal(t, "out of touch", f.Trouble)
	assert.Equal(t, "b", f.Leader.ID, "what was known last stays")
	f.see(led(7, "b", 1<<63))
	f.see(led(8, "a", 1<<63+1))
	var got []Span
	for _, s := range f.Spans {
		assert.False(t, s.To.IsZero() && len(got) < len(f.Spans)-1)
		got = append(got, s)
	}
	assert.Equal(t, []Span{
		{Led, "a", "5", at(0), at(2)},
		{Vacant, "", "", at(2), at(3)},
		{Led, "b", "9223372036854775808", at(3), at(5)},
		{Unknown, "", "", at(5), at(7)},
		{Led, "b", "9223372036854775808", at(7), at(8)},
		{Led, "a", "9223372036854775809", at(8), time.Time{}},
	}, got)
	assert.Equal(t, at(8), f.Leader.From)

	f = followed{}
	f.see(led(1, "b", 7))
	f.see(inspect.View{Trouble: &inspect.Trouble{Since: at(0)}})
	f.see(led(9, "b", 7))
	assert.Equal(t, at(1), f.Leader.From, "the term went on while nobody could look")
	assert.Equal(t, at(1), f.Spans[1].From, "spans do not overlap")
	f.see(inspect.View{Strategy: "strange", Unknown: true, At: at(10)})
	assert.Nil(t, f.Leader)
	assert.Equal(t, Unknown, f.Spans[len(f.Spans)-1].Kind, "a strategy that is not known here says nothing of a vacancy")

	for n := range 3 * mostSpans {
		f.see(led(20+n, "x", uint64(n)))
	}
	assert.Len(t, f.Spans, mostSpans)
	assert.Equal(t, at(20+3*mostSpans-1), f.Spans[mostSpans-1].From)
}

func TestReadable(t *testing.T) {
	for said, want := range map[string]string{
		"":                "",
		"host-1":          "host-1",
		"主機 \"1\" <b>":    "主機 \"1\" <b>", // the page takes text
		"a\nb":            `"a\nb"`,
		"\x1b[31m":        `"\x1b[31m"`,
		"gpj.\u202etxt":   `"gpj.\u202etxt"`,
		"\xff":            `"\xff"`,
		"zero\u200bwidth": `"zero\u200bwidth"`,
	} {
		assert.Equal(t, want, readable(said))
	}
	assert.Less(t, len(readable(string(make([]byte, 1<<20)))), 10_000)
}

// TestListed holds which elections are followed, and which are forgotten.
func TestListed(t *testing.T) {
	b := newBoard(nil, "/")
	list := func(paths ...string) (l inspect.Listing) {
		for _, p := range paths {
			l.Elections = append(l.Elections, inspect.View{Election: p, Strategy: "fair"})
		}
		return l
	}
	began := func(l inspect.Listing, err error) (paths []string) {
		for _, f := range b.listed(t.Context(), l, err) {
			paths = append(paths, f.Path)
		}
		return paths
	}
	assert.Equal(t, []string{"/a", "/b"}, began(list("/a", "/b"), nil))
	assert.Empty(t, began(list("/a", "/b"), nil))
	assert.Empty(t, began(list(), errors.New("no answer")))
	s, version, changed := b.since(0)
	assert.Equal(t, "no answer", s.Trouble)
	assert.Len(t, s.Elections, 2)

	b.all["/a"].gone = true // its watch says so
	partly := list("/b")
	partly.Missed = []inspect.Missed{{Key: "/x", Why: "too many"}}
	began(partly, nil)
	<-changed
	s, _, _ = b.since(version)
	assert.Contains(t, s.Trouble, "/x: too many")
	assert.Equal(t, []string{"/a", "/b"}, s.Paths, "it may be where nobody looked")
	assert.Empty(t, s.Elections, "neither has changed")
	began(list("/b"), nil)
	s, _, _ = b.since(0)
	assert.Equal(t, []string{"/b"}, s.Paths)
	assert.Empty(t, s.Trouble)

	b.all["/b"].watched = false // its watch has ended
	assert.Equal(t, []string{"/b"}, began(list("/b"), nil))
	var many []string
	for n := range mostElections + 10 {
		many = append(many, "/"+string(rune('a'+n%26))+time.Duration(n).String())
	}
	began(list(many...), nil)
	s, _, _ = b.since(0)
	assert.Len(t, s.Paths, mostElections)
	assert.Contains(t, s.Trouble, "11 of 510 elections are not shown")
}

func TestCodes(t *testing.T) {
	require.Equal(t, 409, codeOf(elector.ErrNoLeader))
	require.Equal(t, 409, codeOf(elector.ErrAsked))
	require.Equal(t, 400, codeOf(elector.ErrConfig))
	require.Equal(t, 502, codeOf(errors.New("out of reach")))
}

// TestWatchEnds holds that a refused watch leaves nothing behind, as it begins again every ten seconds.
func TestWatchEnds(t *testing.T) {
	denied := memory.New(memory.Options{}).Client("stranger")
	t.Cleanup(denied.Deny())
	in := must.Get(inspect.New(denied, inspect.Options{}))(t)
	t.Cleanup(func() { assert.NoError(t, in.Close(context.Background())) })
	b := newBoard(in, "/")
	begin := b.listed(t.Context(), inspect.Listing{Elections: []inspect.View{{Election: "/a", Strategy: "fair"}}}, nil)
	require.Len(t, begin, 1)
	b.follow(begin[0])
	assert.Contains(t, b.all["/a"].Trouble, "denied")
	assert.Error(t, begin[0].ctx.Err(), "its context is let go")

	b.listed(t.Context(), inspect.Listing{}, nil)
	assert.Empty(t, b.all, "nobody follows it, and it is listed no more")
}

// TestBoardAfterAnOutage holds that the page looks soon again after a look that an outage made long.
func TestBoardAfterAnOutage(t *testing.T) {
	for what, outage := range map[string]func(*memory.Service, *memory.Client) (end func()){
		"stopped":   func(s *memory.Service, _ *memory.Client) func() { s.Stop(); return s.Start },
		"throttled": func(_ *memory.Service, c *memory.Client) func() { end := c.Throttle(); return func() { end() } },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := memory.New(memory.Options{})
				page := service.Client("page")
				in := must.Get(inspect.New(page, inspect.Options{}))(t)
				b := newBoard(in, "/")
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { b.run(ctx) })
				time.Sleep(19 * time.Second)
				end := outage(service, page)
				time.Sleep(30 * time.Second)
				end()
				e := must.Get(elector.New(elector.Config{Backend: service.Client("new"), Strategy: fair.Strategy{}, Election: "/new", ID: "new"}))(t)
				_ = must.Get(e.Campaign(t.Context()))(t)
				time.Sleep(longestRest + every)
				s, _, _ := b.since(0)
				assert.Contains(t, s.Paths, "/new")
				assert.Empty(t, s.Trouble)
				cancel()
				running.Wait()
				assert.NoError(t, errors.Join(e.Close(t.Context()), in.Close(t.Context())))
			})
		})
	}
}

// TestLeftOut holds that the page reports elections that it does not show, even if others take their place.
func TestLeftOut(t *testing.T) {
	b := newBoard(nil, "/")
	var l inspect.Listing
	for n := range mostElections {
		l.Elections = append(l.Elections, inspect.View{Election: fmt.Sprint("/", n), Strategy: "fair"})
	}
	b.listed(t.Context(), l, nil)
	b.listed(t.Context(), inspect.Listing{Elections: []inspect.View{{Election: "/new", Strategy: "fair"}}}, nil)
	s, _, _ := b.since(0)
	assert.NotContains(t, s.Paths, "/new")
	assert.Contains(t, s.Trouble, "1 of 1 elections are not shown")
}

// TestHostileSize holds that text from strangers cannot make the page arbitrarily long.
func TestHostileSize(t *testing.T) {
	var f followed
	v := inspect.View{Strategy: strings.Repeat("x", 1<<20), At: time.Now(), Unknown: true}
	rank := make([]int64, 10_000)
	for n := range 5000 {
		v.Candidates = append(v.Candidates, inspect.Candidate{ID: fmt.Sprint(n), Rank: rank})
	}
	f.see(v)
	assert.Len(t, f.Candidates, mostCandidates)
	assert.Equal(t, 5000-mostCandidates, f.More)
	data := must.Get(json.Marshal(f.Election))(t)
	assert.Less(t, len(data), mostCandidates*1500)
}

// TestWhatCanBeOrdered holds which buttons there are.
func TestWhatCanBeOrdered(t *testing.T) {
	for strategy, want := range map[string][2]bool{"fair": {true, false}, "ranked": {true, true}, "ranked-by-id": {true, true}, "strange": {false, false}} {
		var f followed
		f.see(inspect.View{Strategy: strategy, At: time.Now()})
		assert.Equal(t, want, [2]bool{f.Transfers, f.Designates}, strategy)
	}
}
