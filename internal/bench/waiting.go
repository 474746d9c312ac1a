package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/internal/program"
	"github.com/elector-go/elector/strategy/fair"
)

const (
	// maxWaiting and maxRoutines are what a waiting candidate may need beyond the
	// client library: bytes of heap and stack, and goroutines with the caller's own.
	maxWaiting  = 8 << 10
	maxRoutines = 2
)

// perClient is what is kept for each of many.
type perClient struct {
	Heap     float64 `json:"heap_bytes"`
	Stack    float64 `json:"stack_bytes"`
	Routines float64 `json:"goroutines"`
}

// bytes are those of heap and stacks.
func (p perClient) bytes() float64 { return p.Heap + p.Stack }

func (p perClient) minus(o perClient) perClient {
	return perClient{p.Heap - o.Heap, p.Stack - o.Stack, p.Routines - o.Routines}
}

// waitingRow is what N waiting candidates keep, and as many bare clients.
type waitingRow struct {
	N         int       `json:"n"`
	Candidate perClient `json:"candidate"`
	Hooked    perClient `json:"candidate_with_session_hook"`
	Bare      perClient `json:"bare_client"`
}

type waitingResult struct {
	Rows []waitingRow `json:"rows"`

	lab *lab
}

func waitingPart(ctx context.Context, l *lab) (section, error) {
	result := waitingResult{lab: l}
	before := takeStock()
	for _, n := range l.cfg.numbers(l.facts) {
		if n > herdN {
			continue
		}
		row, err := l.waitingAt(ctx, n, before)
		if err != nil {
			return nil, fmt.Errorf("with N = %d: %w", n, err)
		}
		result.Rows = append(result.Rows, row)
	}
	return result, nil
}

// waitingAt measures those with fewer goroutines first: the runtime keeps what it needs
// of ended goroutines for the next ones, so that those with fewer would have it counted,
// too. For the same reason it is all compared with what was there at the very beginning.
func (l *lab) waitingAt(ctx context.Context, n int, before stock) (row waitingRow, err error) {
	row.N = n
	l.say("waiting: N = %d", n)
	if err := program.EnoughFiles((n+1)*l.facts.files + otherFiles); err != nil {
		return row, err
	}
	if row.Bare, err = l.bareClients(ctx, n, before); err != nil {
		return row, err
	}
	row.Candidate, err = l.waitingCandidates(ctx, n, before, func(h *elector.Hooks) { h.Session = nil })
	if err != nil {
		return row, err
	}
	row.Hooked, err = l.waitingCandidates(ctx, n, before)
	return row, err
}

// kept returns what is kept for each of n since before.
func kept(before stock, n int) perClient {
	after := takeStock()
	per := func(a, b uint64) float64 { return (float64(a) - float64(b)) / float64(n) }
	return perClient{per(after.heap, before.heap), per(after.stack, before.stack), per(after.routines, before.routines)}
}

// bareClients connects n bare clients, one after the other, with a session and a watch
// each that nobody receives from yet.
func (l *lab) bareClients(ctx context.Context, n int, before stock) (per perClient, err error) {
	owner, err := l.service.connect(ctx, l.service.Addr(), l.cfg.ttl)
	if err != nil {
		return per, err
	}
	defer owner.close()
	if err := owner.create(ctx, rawKey); err != nil {
		return per, err
	}
	for range n {
		c, err := l.service.connect(ctx, l.service.Addr(), l.cfg.ttl)
		if err != nil {
			return per, err
		}
		defer c.close()
		if err := c.stand(ctx, rawKey); err != nil {
			return per, err
		}
	}
	if err := program.Sleep(ctx, l.settleTime()); err != nil {
		return per, err
	}
	per = kept(before, n)
	return per, owner.remove(ctx, rawKey)
}

// waitingCandidates enrols a leader and n others, one after the other like the bare
// clients: of many at once, the process keeps some of the room that the goroutines of
// enrolling took.
func (l *lab) waitingCandidates(ctx context.Context, n int, before stock, changes ...func(*elector.Hooks)) (per perClient, err error) {
	f, err := newField(ctx, n+1, fair.New(), fmt.Sprintf("/bench/waiting-%d", n), l.opener(), changes...)
	if err != nil {
		return per, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	if _, err := f.enrol(1); err != nil {
		return per, err
	}
	if err := f.idle(l.settleTime()); err != nil {
		return per, err
	}
	return kept(before, n), nil
}

// settleTime is how long connecting may leave traces, such as the timers and buffers
// of handshakes, and until all have sent a heartbeat, whose traces stay.
func (l *lab) settleTime() time.Duration {
	if l.cfg.quick {
		return 100 * time.Millisecond
	}
	return l.cfg.ttl/3 + 2*time.Second
}

func (r waitingResult) markdown(w io.Writer) {
	facts := r.lab.facts
	fmt.Fprintf(w, "## %s: waiting candidates, fair\n\n", facts.title)
	fmt.Fprintf(w, "One leader and N others that wait, each with %s; and N bare clients in the same process with a session that the client library keeps alive and one watch each, from which nobody receives. All enter one after the other, and have sent heartbeats. Heap, stacks and goroutines are the difference to before, per waiting one, after garbage collections; the goroutine that called Campaign counts, and where Hooks.Session is set, the one that serves it.\n\n", facts.clients)
	rows := [][]string{{"N", "", "heap", "stacks", "goroutines"}}
	for _, row := range r.Rows {
		for _, one := range []struct {
			name string
			per  perClient
		}{{"candidate", row.Candidate}, {"bare client", row.Bare}, {"beyond it", row.Candidate.minus(row.Bare)}, {"with Hooks.Session", row.Hooked.minus(row.Bare)}} {
			rows = append(rows, []string{
				fmt.Sprint(row.N), one.name, fmt.Sprintf("%.0f B", one.per.Heap), fmt.Sprintf("%.0f B", one.per.Stack), fmt.Sprintf("%.2f", one.per.Routines),
			})
		}
	}
	fmt.Fprintln(w, table(rows...))
	if r.lab.cfg.quick || len(r.Rows) == 0 {
		return
	}
	// With few candidates, what the process keeps once for all counts.
	last := r.Rows[len(r.Rows)-1]
	beyond := last.Candidate.minus(last.Bare)
	fmt.Fprintf(w, "- Target at N = %d: at most %d bytes of heap and stacks beyond the client library. %s: %.0f.\n", last.N, maxWaiting, verdict(beyond.bytes() <= maxWaiting), beyond.bytes())
	// The leader's are shared out among all.
	fmt.Fprintf(w, "- Target at N = %d: at most %d goroutines beyond it. %s: %.2f.\n\n", last.N, maxRoutines, verdict(beyond.Routines < maxRoutines+0.05), beyond.Routines)
}
