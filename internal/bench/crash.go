package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/strategy/fair"
)

// crashTTL is the session timeout of those who crash: a whole number of ticks, so
// that the server grants it as it is.
const crashTTL = 10 * tick

// crash is one crash: delays are from the cut of the sockets.
type crash struct {
	Raw      time.Duration `json:"raw_expiry_ns"`    // deletion event of the bare session's node
	Takeover time.Duration `json:"takeover_ns"`      // the next Campaign has returned
	Stopped  time.Duration `json:"old_term_over_ns"` // the old leader's context has ended
}

type crashResult struct {
	Crashes  []crash `json:"crashes"`
	Raw      dist    `json:"raw_expiry"`
	Takeover dist    `json:"takeover"`
	Behind   dist    `json:"takeover_behind_raw_expiry"`
	Ahead    dist    `json:"old_term_over_before_takeover"`

	cfg config
}

func crashPart(ctx context.Context, l *lab) (section, error) {
	result := crashResult{cfg: l.cfg}
	var raws, takeovers, behind, ahead []time.Duration
	var cleanups sync.WaitGroup
	defer cleanups.Wait()
	for i := range l.cfg.crashSamples {
		l.say("crash: %d of %d", i+1, l.cfg.crashSamples)
		c, err := l.crashOnce(ctx, i, &cleanups)
		if err != nil {
			return nil, err
		}
		result.Crashes = append(result.Crashes, c)
		raws = append(raws, c.Raw)
		takeovers = append(takeovers, c.Takeover)
		behind = append(behind, c.Takeover-c.Raw)
		ahead = append(ahead, c.Takeover-c.Stopped)
	}
	result.Raw, result.Takeover = summarize(raws), summarize(takeovers)
	result.Behind, result.Ahead = summarize(behind), summarize(ahead)
	return result, nil
}

// crashOnce cuts off a leader and, at the same instant, a bare session. A client
// that cannot connect any more takes seconds to close: that goes on in cleanups.
func (l *lab) crashOnce(ctx context.Context, i int, cleanups *sync.WaitGroup) (c crash, err error) {
	addr := l.zk.Addr()
	proxy, err := servertest.NewProxy(addr)
	if err != nil {
		return c, err
	}
	open := []string{proxy.Addr(), addr} // the leader's, the next one's
	f, err := newField(ctx, 2, fair.New(), fmt.Sprintf("/bench/crash-%d", i), func() (backend.Backend, error) {
		server := open[0]
		open = open[1:]
		return l.zkBackend(server, crashTTL)
	})
	if err != nil {
		return c, errors.Join(err, proxy.Close())
	}
	r, err := l.newRawPair(ctx, proxy.Addr(), addr, fmt.Sprintf("/bench-crash-%d", i), crashTTL)
	if err != nil {
		return c, errors.Join(err, f.close(), proxy.Close())
	}
	defer cleanups.Go(func() {
		_ = f.close() // cannot confirm that a session is closed that is gone
		r.close()
		_ = proxy.Close()
	})
	if _, err := f.enrol(1); err != nil {
		return c, err
	}
	fired, err := r.watch()
	if err != nil {
		return c, err
	}
	if err := f.idle(100 * time.Millisecond); err != nil {
		return c, err
	}
	old := f.leader
	stopped := make(chan time.Time, 1)
	context.AfterFunc(old.term.Context(), func() { stopped <- time.Now() })

	// The server counts from the last packet it got. A read right before the cut
	// makes that the same instant for both; the leader's comes last, so that what
	// is left of a difference counts against it.
	if _, _, err := r.owner.Exists(r.path); err != nil {
		return c, err
	}
	if _, err := old.elector.Leader(ctx); err != nil {
		return c, err
	}
	cut := time.Now()
	proxy.Refuse(true)
	proxy.Cut()

	expired, err := await(ctx, fired)
	if err != nil {
		return c, err
	}
	next, err := f.next()
	if err != nil {
		return c, err
	}
	f.leader = next
	if next.elector == old.elector || next.term.Token() <= old.term.Token() {
		return c, fmt.Errorf("token %d follows token %d", next.term.Token(), old.term.Token())
	}
	select {
	case at := <-stopped:
		c = crash{Raw: expired.Sub(cut), Takeover: next.at.Sub(cut), Stopped: at.Sub(cut)}
		return c, nil
	case <-time.After(patience):
		return c, errors.New("the cut-off leader's term has not ended")
	}
}

func (r crashResult) markdown(w io.Writer) {
	fmt.Fprintf(w, "## Crash of the leader, fair\n\n")
	fmt.Fprintf(w, "The sockets of the leader and of a bare session are cut at the same instant, right after a read on each, and cannot be opened again. Session timeout %v, tick of the server %v. Delays from the cut: until the deletion event of the bare session's ephemeral node at a watcher (raw expiry: the timeout, rounded up to the server's tick), and until the next candidate's Campaign has returned. Differences are taken crash by crash.\n\n", crashTTL, tick)
	row := func(name string, d dist) []string {
		return []string{name, fmt.Sprint(d.N), ms(d.P50), ms(d.Min), ms(d.Max)}
	}
	fmt.Fprintln(w, table(
		[]string{"", "crashes", "median", "min", "max"},
		row("raw expiry", r.Raw),
		row("next Campaign returned", r.Takeover),
		row("behind raw expiry", r.Behind),
		row("old term's Context done before", r.Ahead)))
	if r.cfg.quick {
		return
	}
	fmt.Fprintf(w, "- Target: no more than one tick (%v) behind raw expiry. %s: %s at most.\n", tick, verdict(r.Behind.Max <= tick), ms(r.Behind.Max))
	fmt.Fprintf(w, "- The old leader must have stopped first. %s: by %s at least.\n\n", verdict(r.Ahead.Min > 0), ms(r.Ahead.Min))
}
