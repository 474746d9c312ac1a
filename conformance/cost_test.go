package conformance_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/backend/meter"
	"github.com/elector-go/elector/internal/strategies"
	"github.com/elector-go/elector/strategy"
)

var update = flag.Bool("update", false, "write the table of docs/strategies.md")

const (
	costDoc  = "../docs/strategies.md"
	costHead = "| change | strategy | who | wake-ups | watches set | reads | writes |\n|---|---|---|---|---|---|---|\n"
)

// TestCosts checks that each change costs each waiting candidate what the table of docs/strategies.md
// says: the same with more candidates, or one read more for each. Where costs differ otherwise, because chance
// decides, say, the table has a row that says that they vary.
func TestCosts(t *testing.T) {
	var table string
	few, many := 4, 9
	for _, change := range costlyChanges {
		for _, cfg := range strategies.All() {
			at := make(map[int]string)
			for _, n := range []int{few, many} {
				synctest.Test(t, func(t *testing.T) { at[n] = costs(t, change, cfg.Strategy, n) })
			}
			rows, ok := atEachN(at[few], at[many], few, many)
			if !ok {
				t.Logf("%s, %s: costs vary, with %d who wait\n%swith %d\n%s", cfg.Strategy.Name(), change.name, few, at[few], many, at[many])
				rows = fmt.Sprintf("| %s | %s | all | varies | varies | varies | varies |\n", change.name, cfg.Strategy.Name())
			}
			table += rows
		}
	}
	writeTable(t, costDoc, costHead, table, "TestCosts")
}

// atEachN merges the rows for two numbers of candidates, n and m, that differ only by one read per candidate:
// "N + 2" for 6 reads with 4 waiting and 11 reads with 9. ok is false if they differ in another way.
func atEachN(few, many string, n, m int) (table string, ok bool) {
	const reads = 5 // the column
	a, b := strings.Split(few, "\n"), strings.Split(many, "\n")
	if len(a) != len(b) {
		return "", false
	}
	for i := range a {
		if a[i] == b[i] {
			continue
		}
		x, y := strings.Split(a[i], " | "), strings.Split(b[i], " | ")
		if len(x) != 7 || len(y) != 7 {
			return "", false
		}
		p, _ := strconv.Atoi(x[reads])
		q, _ := strconv.Atoi(y[reads])
		if p-n != q-m {
			return "", false
		}
		x[reads] = strings.TrimSuffix(fmt.Sprintf("N + %d", p-n), " + 0")
		y[reads] = x[reads]
		if a[i] = strings.Join(x, " | "); a[i] != strings.Join(y, " | ") {
			return "", false
		}
	}
	return strings.Join(a, "\n"), true
}

// A costlyChange may cost waiting candidates something. do returns the index of the one that left, or 0.
type costlyChange struct {
	name string
	do   func(e *costElection) (gone int)
}

var costlyChanges = []costlyChange{
	{"the leader resigns", func(e *costElection) int {
		assert.NoError(e.t, (<-e.elected).Resign(e.t.Context()))
		return 0
	}},
	{"a candidate joins", func(e *costElection) int { e.join(); return 0 }},
	{"one that waits withdraws", func(e *costElection) int { e.all[2].withdraw(); return 2 }},
}

// A costElection has a leader, and candidates that wait, in the order of their arrival.
type costElection struct {
	t        *testing.T
	service  *memory.Service
	strategy strategy.Strategy
	elected  chan *elector.Term
	all      []*costCandidate
}

type costCandidate struct {
	meter    *meter.Backend
	withdraw context.CancelFunc
	won      bool
}

// newCostElection returns an election with n waiting candidates.
func newCostElection(t *testing.T, strategy strategy.Strategy, n int) *costElection {
	e := &costElection{t: t, service: slowly(), strategy: strategy, elected: make(chan *elector.Term, n+1)}
	for range n + 1 {
		e.join()
	}
	return e
}

func (e *costElection) join() {
	ctx, withdraw := context.WithCancel(e.t.Context())
	c := &costCandidate{meter: meter.New(e.service, nil), withdraw: withdraw}
	e.all = append(e.all, c)
	el, err := elector.New(elector.Config{
		Backend: c.meter, Strategy: e.strategy, Election: "/election", ID: strconv.Itoa(len(e.all)),
	})
	require.NoError(e.t, err)
	e.t.Cleanup(func() {
		assert.NoError(e.t, el.Close(context.Background()))
	})
	go func() {
		if term, err := el.Campaign(ctx); err == nil {
			c.won = true
			e.elected <- term
		}
	}()
	e.settle()
}

// slowly returns a service whose commits take time and whose notices take none: all candidates that are
// woken know of a vacancy before anybody has used it.
func slowly() *memory.Service {
	return memory.New(memory.Options{Intercept: func(s memory.Step) {
		if s.Kind == memory.StepCommit {
			time.Sleep(time.Millisecond)
		}
	}})
}

// settle lets all that has begun finish, on fake time.
func (e *costElection) settle() {
	time.Sleep(100 * time.Millisecond)
	synctest.Wait()
}

const theWinner = "the winner"

// costs makes the rows of one change with n waiting candidates.
func costs(t *testing.T, change costlyChange, strategy strategy.Strategy, n int) string {
	e := newCostElection(t, strategy, n)
	var before []meter.Counts
	for _, c := range e.all {
		before = append(before, c.meter.Counts())
	}
	gone := change.do(e)
	e.settle()
	var rows []string
	count := make(map[string]int)
	for i, was := range before {
		if i == 0 || i == gone {
			continue
		}
		c := e.all[i].meter.Counts().Sub(was)
		// Each candidate was in one wait before, and is in one now. A wait without a wake-up was a read.
		reads := c.Gets + c.Lists + c.Predecessors + c.Waits - c.WakeUps
		row := fmt.Sprintf(" | %d | %d | %d | %d |\n", c.WakeUps, c.Watches, reads, c.Commits+c.Drops)
		if e.all[i].won {
			row = theWinner + row
		}
		if count[row]++; count[row] == 1 {
			rows = append(rows, row)
		}
	}
	slices.SortStableFunc(rows, func(a, b string) int { return cmp.Compare(count[a], count[b]) })
	var table string
	for _, row := range rows {
		who := ""
		switch {
		case strings.HasPrefix(row, theWinner):
		case len(rows) == 1:
			who = "each"
		case count[row] == 1:
			who = "the one behind"
		default:
			who = "each of the others"
		}
		table += fmt.Sprintf("| %s | %s | %s%s", change.name, strategy.Name(), who, row)
	}
	return table
}
