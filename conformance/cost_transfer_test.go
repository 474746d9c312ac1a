package conformance_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend/meter"
	"github.com/elector-go/elector/internal/election"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/strategies"
	"github.com/elector-go/elector/strategy/fair"
)

const (
	transferDoc  = "../docs/performance.md"
	transferHead = "| who, in a transfer with fair | wake-ups | watches set | reads | writes |\n|---|---|---|---|---|\n"
)

// TestTransferCosts checks that a transfer past other candidates costs what the table of
// docs/performance.md says, and leaves no longer vacancy than a resignation.
func TestTransferCosts(t *testing.T) {
	var tables []string
	var vacant []time.Duration
	for _, between := range []int{3, 8} {
		synctest.Test(t, func(t *testing.T) {
			table, took := transferCosts(t, between)
			tables, vacant = append(tables, table), append(vacant, took)
		})
	}
	require.Equal(t, tables[1], tables[0], "costs depend on how many stand in between:\n%s\n%s", tables[0], tables[1])
	synctest.Test(t, func(t *testing.T) {
		e := newCostElection(t, fair.Strategy{}, 3)
		leader := <-e.elected
		if took := e.vacancy(func() error { return leader.Resign(t.Context()) }); took != vacant[0] || took != vacant[1] {
			t.Errorf("nobody leads for %v at a resignation, and for %v at transfers", took, vacant)
		}
	})
	writeTable(t, transferDoc, transferHead, tables[0], "TestTransferCosts")
}

// vacancy calls do, which ends a term, and returns how long nobody led.
func (e *costElection) vacancy(do func() error) time.Duration {
	done := make(chan time.Time)
	go func() {
		assert.NoError(e.t, do())
		done <- time.Now()
	}()
	resigned := <-done
	next := <-e.elected
	led := time.Since(resigned)
	e.elected <- next
	return led
}

// transferCosts makes the rows of a transfer past between candidates, and measures how long nobody led.
func transferCosts(t *testing.T, between int) (table string, vacant time.Duration) {
	const behind = 2
	e := newCostElection(t, fair.Strategy{}, between+1+behind)
	leader := <-e.elected
	var before []meter.Counts
	for _, c := range e.all {
		before = append(before, c.meter.Counts())
	}
	heir := between + 1
	began := time.Now()
	errWorks := errors.New("the work goes on")
	require.ErrorIs(t, leader.Transfer(t.Context(), strconv.Itoa(heir+1), func() error { return errWorks }), errWorks)
	// A commit for each hop, one that names the heir, and one that asks whether the server is behind.
	if took, most := time.Since(began), time.Duration(between+2)*time.Millisecond; took > most {
		t.Errorf("to make way past %d took %v, want %v at most, where a commit takes a millisecond", between, took, most)
	}
	synctest.Wait()
	who := map[int]string{0: "the leader, besides a read of each candidate", 1: "the first in between", 2: "each other in between", heir: "the heir", heir + 1: "the one behind the heir", heir + 2: "each of the others"}
	rows := make(map[string]string)
	for i, was := range before {
		c := e.all[i].meter.Counts().Sub(was)
		name := who[i]
		if i > 1 && i < heir {
			name = who[2]
		}
		if i == 0 {
			c.Gets -= len(e.all)
		}
		reads := c.Gets + c.Lists + c.Predecessors + max(c.Waits-c.WakeUps, 0)
		row := fmt.Sprintf("| %s | %d | %d | %d | %d |\n", name, c.WakeUps, c.Watches, reads, c.Commits+c.Drops)
		if seen, is := rows[name]; is && seen != row {
			t.Errorf("%s pays %q, and another of them %q", name, row, seen)
		} else if !is {
			table += row
		}
		rows[name] = row
	}
	return table, e.vacancy(func() error { return leader.Resign(t.Context()) })
}

// TestAskingCosts checks that it costs a leader nothing to be open to requests: it sets no extra watch,
// and the watch on its own entry reports a request without a read.
func TestAskingCosts(t *testing.T) {
	for _, cfg := range strategies.All() {
		t.Run(cfg.Strategy.Name(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newCostElection(t, cfg.Strategy, 3)
				leader := <-e.elected
				before, watches := e.all[0].meter.Counts(), e.service.Stats().Watches
				if _, err := election.Ask(t.Context(), e.service.Client("operator"), cfg.Strategy, "/election", election.Request{By: "operator"}); err != nil {
					t.Fatal(err)
				}
				<-leader.Asked()
				e.settle()
				c := e.all[0].meter.Counts().Sub(before)
				c.Sent, c.Received = 0, 0
				if want := (meter.Counts{WakeUps: 1, Waits: 1, Watches: 1}); c != want {
					t.Errorf("to be asked costs the leader %+v, want %+v: its watch tells, and is set again", c, want)
				}
				if now := e.service.Stats().Watches; now != watches {
					t.Errorf("there are %d watches when the leader has been asked, and %d were before", now, watches)
				}
				e.elected <- leader
			})
		})
	}
}

// writeTable checks that page has the table rows made by the named test. With -update it writes them.
func writeTable(t *testing.T, page, head, rows, test string) {
	t.Helper()
	text := must.Get(os.ReadFile(page))(t)
	before, rest, ok := strings.Cut(string(text), head)
	require.True(t, ok, "%s has no table that begins with %q", page, head)
	had, after, _ := strings.Cut(rest, "\n\n")
	want := before + head + rows + "\n" + after
	switch {
	case want == string(text):
	case *update:
		require.NoError(t, os.WriteFile(page, []byte(want), 0o644))
	default:
		t.Errorf("%s does not say what it costs; go test ./conformance -run %s -args -update mends it:\nmissing\n%s\nwrong\n%s", page, test,
			strings.Join(without(rows, had), "\n"), strings.Join(without(had, rows), "\n"))
	}
}

// without returns the lines of a table that another one does not have.
func without(table, other string) []string {
	lines := strings.Split(other, "\n")
	return slices.DeleteFunc(strings.Split(table, "\n"), func(line string) bool { return line == "" || slices.Contains(lines, line) })
}
