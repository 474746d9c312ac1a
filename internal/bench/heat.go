package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/elector-go/elector/internal/program"
)

// heatRow is the handovers among N contenders in a process of their own.
type heatRow struct {
	Of   string `json:"of"`
	N    int    `json:"n"`
	Idle dist   `json:"idle"`
	Hot  dist   `json:"without_a_pause"`
}

type heatResult struct {
	Idle dist      `json:"raw_idle"`
	Hot  dist      `json:"raw_without_a_pause"`
	Rows []heatRow `json:"rows"`

	lab *lab
}

// heatPart has the seat change hands without a pause, and from idle.
func heatPart(ctx context.Context, l *lab) (section, error) {
	limit, err := rawPart(ctx, l)
	if err != nil {
		return nil, err
	}
	raw := limit.(rawResult)
	result := heatResult{Idle: raw.Idle, Hot: raw.Busy, lab: l}
	for _, n := range l.cfg.numbers(l.facts) {
		if n > herdN {
			continue
		}
		for _, of := range []string{ofCandidates, ofPlain} {
			l.say("heat: %d %s", n, l.called(of))
			row := heatRow{Of: of, N: n}
			for _, kind := range []struct {
				idle time.Duration
				to   *dist
			}{{l.cfg.idle, &row.Idle}, {0, &row.Hot}} {
				if err := l.inChild(ctx, errand{Of: of, N: n, Idle: kind.idle, Samples: l.cfg.samples}, kind.to); err != nil {
					return nil, fmt.Errorf("%d %s: %w", n, of, err)
				}
			}
			result.Rows = append(result.Rows, row)
		}
	}
	return result, nil
}

// handovers has the seat go from one contender to the next, and takes the delay from just
// before one gives it up until the next one has it. Who gave it up then enters again.
func (c *contest) handovers(e errand) (dist, error) {
	type win struct {
		contender
		at time.Time
	}
	wins := make(chan win, e.N)
	won := func(one contender) { wins <- win{one, time.Now()} }
	next := func() (win, error) {
		select {
		case w := <-wins:
			return w, nil
		case <-time.After(patience):
			return win{}, fmt.Errorf("nobody had the seat for %v", patience)
		case <-c.ctx.Done():
			return win{}, context.Cause(c.ctx)
		}
	}
	for i := range e.N {
		go c.enter(i, won)
	}
	leader, err := next()
	if err == nil {
		err = c.await(e.N - 1)
	}
	if err != nil {
		return dist{}, err
	}
	const warmups = 20
	var delays []time.Duration
	for i := range warmups + e.Samples {
		if err := program.Sleep(c.ctx, e.Idle); err != nil {
			return dist{}, context.Cause(c.ctx)
		}
		old, began := leader, time.Now()
		if err := old.give(c.ctx); err != nil {
			return dist{}, err
		}
		if leader, err = next(); err != nil {
			return dist{}, err
		}
		if i >= warmups {
			delays = append(delays, leader.at.Sub(began))
		}
		go c.again(old.contender, won)
	}
	return summarize(delays), nil
}

func (r heatResult) markdown(w io.Writer) {
	fmt.Fprintf(w, "## %s: heat\n\n", r.lab.facts.title)
	fmt.Fprintf(w, "Processes of their own with N candidates of one fair election, or N users of %s with its defaults, each on a session and a connection of its own. A handover is the delay from just before one gives the seat up until the next one has it; the old one enters again right then. Hot: the next one gives it up at once. From idle: after %v. The raw limit is taken before, in this process.\n\n",
		r.lab.called(ofPlain), r.lab.cfg.idle)
	rows := [][]string{{"N", "", "samples", "from idle p50", "p90", "p99", "hot p50", "p90", "p99", "hot p50 / raw"}}
	row := func(n, name string, idle, hot dist) {
		rows = append(rows, []string{
			n, name, fmt.Sprint(hot.N), ms(idle.P50), ms(idle.P90), ms(idle.P99), ms(hot.P50), ms(hot.P90), ms(hot.P99), fmt.Sprintf("%.2f", ratio(hot.P50, r.Hot.P50)),
		})
	}
	row("", "raw limit", r.Idle, r.Hot)
	for _, one := range r.Rows {
		row(fmt.Sprint(one.N), r.lab.called(one.Of), one.Idle, one.Hot)
	}
	fmt.Fprintln(w, table(rows...))
}
