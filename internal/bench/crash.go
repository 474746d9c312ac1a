package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/elector-go/elector/internal/proxytest"
	"github.com/elector-go/elector/strategy/fair"
)

// maxBehind is how long after the service has let go of a dead leader's entry the
// next one may need.
const maxBehind = 200 * time.Millisecond

// crash is one crash: delays are from the cut of the sockets.
type crash struct {
	Raw      time.Duration `json:"raw_expiry_ns"`    // deletion event of the leader's entry at a bare client
	Takeover time.Duration `json:"takeover_ns"`      // the next Campaign has returned
	Stopped  time.Duration `json:"old_term_over_ns"` // the old leader's context has ended
}

// crashRow is what was measured with one kind of session.
type crashRow struct {
	Session  string  `json:"session"`
	Crashes  []crash `json:"crashes"`
	Raw      dist    `json:"raw_expiry"`
	Takeover dist    `json:"takeover"`
	Behind   dist    `json:"takeover_behind_raw_expiry"`
	Ahead    dist    `json:"old_term_over_before_takeover"`
}

type crashResult struct {
	Rows []crashRow `json:"rows"`

	lab *lab
}

func crashPart(ctx context.Context, l *lab) (section, error) {
	result := crashResult{lab: l}
	for i, kind := range l.service.crashes() {
		row, err := l.crashesOf(ctx, kind, fmt.Sprintf("/bench/crash-%d", i))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind.name, err)
		}
		result.Rows = append(result.Rows, row)
	}
	return result, nil
}

func (l *lab) crashesOf(ctx context.Context, kind crashKind, path string) (crashRow, error) {
	row := crashRow{Session: kind.name}
	var raws, takeovers, behind, ahead []time.Duration
	var cleanups sync.WaitGroup
	defer cleanups.Wait()
	for i := range l.cfg.crashSamples {
		l.say("crash: %s: %d of %d", kind.name, i+1, l.cfg.crashSamples)
		c, err := l.crashOnce(ctx, kind, fmt.Sprintf("%s-%d", path, i), &cleanups)
		if err != nil {
			return row, err
		}
		row.Crashes = append(row.Crashes, c)
		raws = append(raws, c.Raw)
		takeovers = append(takeovers, c.Takeover)
		behind = append(behind, c.Takeover-c.Raw)
		ahead = append(ahead, c.Takeover-c.Stopped)
	}
	row.Raw, row.Takeover = summarize(raws), summarize(takeovers)
	row.Behind, row.Ahead = summarize(behind), summarize(ahead)
	return row, nil
}

// crashOnce cuts off a leader. A client that cannot connect any more takes seconds to
// close: that goes on in cleanups.
func (l *lab) crashOnce(ctx context.Context, kind crashKind, path string, cleanups *sync.WaitGroup) (c crash, err error) {
	addr := l.service.Addr()
	proxy, err := proxytest.New(addr)
	if err != nil {
		return c, err
	}
	open := []string{proxy.Addr(), addr} // the leader's, the next one's
	f, err := newField(ctx, 2, fair.New(), path, func() (seat, error) {
		server := open[0]
		open = open[1:]
		return kind.open(server)
	})
	if err != nil {
		return c, errors.Join(err, proxy.Close())
	}
	watcher, err := l.service.connect(ctx, addr, l.cfg.ttl)
	if err != nil {
		return c, errors.Join(err, f.close(), proxy.Close())
	}
	defer cleanups.Go(func() {
		_ = f.close() // cannot confirm that a session is closed that is gone
		watcher.close()
		_ = proxy.Close()
	})
	if _, err := f.enrol(1); err != nil {
		return c, err
	}
	old := f.leader
	fired, err := watcher.watch(ctx, old.Term.Guard().Conditions[0].Entry.Key)
	if err != nil {
		return c, err
	}
	if err := f.idle(100 * time.Millisecond); err != nil {
		return c, err
	}
	stopped := make(chan time.Time, 1)
	context.AfterFunc(old.Term.Context(), func() { stopped <- time.Now() })

	// Where the server counts from the last packet it got, a read right before the
	// cut makes that the same instant.
	if _, err := old.Leader(ctx); err != nil {
		return c, err
	}
	cut := time.Now()
	proxy.Refuse(true)
	proxy.Cut()

	expired, err := await(ctx, fired)
	if err != nil {
		return c, err
	}
	next, err := f.succession()
	if err != nil {
		return c, err
	}
	select {
	case at := <-stopped:
		c = crash{Raw: expired.Sub(cut), Takeover: next.At.Sub(cut), Stopped: at.Sub(cut)}
		return c, nil
	case <-time.After(patience):
		return c, errors.New("the cut-off leader's term has not ended")
	}
}

func (r crashResult) markdown(w io.Writer) {
	fmt.Fprintf(w, "## %s: crash of the leader, fair\n\n", r.lab.facts.title)
	fmt.Fprintf(w, "The leader's sockets are cut, and cannot be opened again. %s Delays from the cut: until the deletion event of the leader's entry at a bare client (raw expiry), and until the next candidate's Campaign has returned. Differences are taken crash by crash.\n\n", r.lab.facts.expiry)
	for _, row := range r.Rows {
		row.markdown(w, r.lab.cfg.quick)
	}
}

func (r crashRow) markdown(w io.Writer, quick bool) {
	row := func(name string, d dist) []string {
		return []string{name, fmt.Sprint(d.N), ms(d.P50), ms(d.Min), ms(d.Max)}
	}
	fmt.Fprintln(w, table(
		[]string{r.Session, "crashes", "median", "min", "max"},
		row("raw expiry", r.Raw),
		row("next Campaign returned", r.Takeover),
		row("behind raw expiry", r.Behind),
		row("old term's Context done before", r.Ahead)))
	if quick {
		return
	}
	fmt.Fprintf(w, "- Target: no more than %v behind raw expiry. %s: %s at most.\n", maxBehind, verdict(r.Behind.Max <= maxBehind), ms(r.Behind.Max))
	fmt.Fprintf(w, "- The old leader must have stopped first. %s: by %s at least.\n\n", verdict(r.Ahead.Min > 0), ms(r.Ahead.Min))
}
