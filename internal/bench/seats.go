package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/crowd"
	"github.com/elector-go/elector/strategy/fair"
)

const (
	ofSeated  = "seated"  // a process that leads many elections, and dies
	ofStandby = "standby" // a process that stands in all of them, and measures

	// takesIn limits how long a process tries to lead, or to stand in, all elections.
	takesIn = 40 * time.Second
	// summedSeats are those in the summary.
	summedSeats = 1000
	// plainTTL is the timeout of the client library's own sessions, if the service grants it: they time out.
	plainTTL = 5 * time.Second
)

// together is users of the client library's own election on one session.
type together struct {
	take func(ctx context.Context, path string) error // blocks until it has the seat
	end  func()                                       // gives up all of them, as fast as the library can
}

// seats are those that a process has or waits for.
type seats struct {
	Present int     // how many
	Before  float64 // resident memory before the first
}

// A seatsRow is what the standby has measured.
type seatsRow struct {
	Led, Stood        int           // seats taken, and waited for; the rest is measured if these are all
	Took              time.Duration // from the start of the process until it led
	Leads, Waits      float64       // resident memory of each process, each seat
	First, Last       time.Duration // next leader, from just before the kill or before the process began to close
	CPU               time.Duration // of the standby, until it has nothing to do again
	Requests, Watches int           // that the standby has sent by then
	Unserved          int           // seats that had no next leader within patience
}

func seatsPart(ctx context.Context, l *lab) (section, error) {
	ttl := max(plainTTL, l.facts.minTTL)
	t := table{
		About: fmt.Sprintf("One process leads N elections on one session (backend.Share, fair, a session timeout of %v, with a companion), another stands in all of them by one session, both of their own, and nothing happens for a second. Beside it the same with %s, each of an election of its own, on one session of one client, which times out after %v. All lead: from just before the process is started, with its companion. RSS: VmRSS beyond that before the first election, each. First, last: from just before kill -9, or just before the process begins to close all, all at once, until the standby has the first seat and the last. CPU and requests (besides heartbeats; in brackets watches): of the standby, until it has nothing to do again. One run each. %s",
			l.cfg.ttl, l.facts.together, ttl, l.facts.limits),
		Head: []string{"seats", "", "all lead", "RSS that leads", "RSS that waits", "kill -9: first", "last", "last less first", "CPU", "requests", "closed: first", "last", "CPU", "requests"},
	}
	numbers := l.cfg.seats
	if numbers == nil {
		numbers = l.facts.seats
	}
	for _, n := range numbers {
		for _, own := range []bool{true, false} {
			if err := l.limited(ctx, func(l *lab) error { return l.seatsOf(ctx, n, own, ttl, &t) }); err != nil {
				return section{}, fmt.Errorf("%d seats, candidates: %v: %w", n, own, err)
			}
		}
	}
	return section{l.facts.title + ": many seats at once", []table{t}}, nil
}

// limited calls do with a server of its own if the service limits connections: an agent of Consul counts those of a
// process that was killed until their queries have ended.
func (l *lab) limited(ctx context.Context, do func(*lab) error) (err error) {
	if l.facts.limits == "" {
		return do(l)
	}
	cfg := l.cfg
	cfg.stock = true
	own, err := onService(ctx, cfg, l.kind, l.log)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, own.service.Close())
		l.sums = append(l.sums, own.sums...)
	}()
	return do(own)
}

// seatsOf adds a row: of candidates, or of the client library's own election.
func (l *lab) seatsOf(ctx context.Context, n int, own bool, plainTTL time.Duration, t *table) error {
	e := errand{Of: ofStandby, N: n, Companion: own}
	name, who := "candidates", l.who(ofCandidates)
	if !own {
		e.TTL, name, who = plainTTL, l.facts.together, l.who(ofPlain)
	}
	sum := func(results ...any) {
		for i, what := range []string{"kill -9 to the last next leader", "the first to the last of these", "close to the last next leader",
			"start of the process until all lead", "memory (VmRSS) of each that leads", "memory (VmRSS) of each that waits"} {
			if n == summedSeats {
				l.sum(fmt.Sprintf("%d seats: %s", n, what), who, results[i])
			}
		}
	}
	var dead, closed seatsRow
	for _, row := range []*seatsRow{&dead, &closed} {
		e.Graceful = row == &closed
		l.say("seats: %d %s, closed: %v", n, name, e.Graceful)
		e.Path = fmt.Sprintf("/bench/seats-%d-%v-%v", n, own, e.Graceful)
		if err := l.inChild(ctx, e, row); err != nil {
			return err
		}
		if row.Led < n || row.Stood < n {
			t.note("%d %s: in %v, %d lead, and %d stand behind them.", n, name, takesIn, row.Led, row.Stood)
			sum("–", "–", "–", "–", "–", "–")
			return nil
		}
		if row.Unserved > 0 {
			t.note("%d %s, closed: %v: %d had no next leader after %v.", n, name, e.Graceful, row.Unserved, patience)
		}
	}
	cost := func(r seatsRow) string { return fmt.Sprintf("%d (%d)", r.Requests, r.Watches) }
	t.add(n, name, dead.Took, kib(dead.Leads), kib(dead.Waits), dead.First, dead.Last, dead.Last-dead.First, dead.CPU, cost(dead),
		closed.First, closed.Last, closed.CPU, cost(closed))
	sum(dead.Last, dead.Last-dead.First, closed.Last, dead.Took, kib(dead.Leads), kib(dead.Waits))
	return nil
}

// A throng is contenders of as many elections on one session.
type throng struct {
	*crowd.Crowd
	n      int
	own    bool
	failed atomic.Int64 // of the client library's
	close  func()       // all at once
}

// throng makes n contenders enter: candidates on b, or users of the client library's own election if b is nil.
func (l *lab) throng(ctx context.Context, e errand, b backend.Backend) (*throng, error) {
	t := &throng{Crowd: crowd.New(ctx, e.N, patience), n: e.N, own: b != nil}
	var shared backend.Backend
	var plain together
	if t.own {
		shared, t.close = backend.Share(b, e.TTL), t.closeEach
	} else {
		var err error
		if plain, err = l.service.together(ctx, e.TTL); err != nil {
			return nil, err
		}
		t.close = plain.end
	}
	for i := range e.N {
		path := elections(e.Path, i)
		if t.own {
			cfg := elector.Config{Backend: shared, Strategy: fair.Strategy{}, Election: path, ID: strconv.Itoa(os.Getpid())}
			if _, err := t.Add(cfg); err != nil {
				return nil, err
			}
			continue
		}
		t.Candidates = append(t.Candidates, &crowd.Candidate{ID: path, Elector: &lock{take: func(ctx context.Context) error {
			err := plain.take(ctx, path)
			if err != nil {
				t.failed.Add(1)
				<-ctx.Done() // the others go on
			}
			return err
		}}})
	}
	for _, c := range t.Candidates {
		t.Enter(c)
	}
	return t, nil
}

// closeEach returns no error: those who wait tell whether all have left.
func (t *throng) closeEach() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	var all sync.WaitGroup
	for _, c := range t.Candidates {
		all.Go(func() { _ = c.Close(ctx) })
	}
	all.Wait()
}

// take waits until all contenders lead, or for a time, and returns when the first and the last led, and how
// many.
func (t *throng) take(within time.Duration) (first, last time.Time, n int, err error) {
	for late := time.Now().Add(within); n < t.n-int(t.failed.Load()); {
		w, err := t.NextWithin(time.Until(late))
		if t.Context().Err() != nil {
			return first, last, n, err
		}
		if err != nil {
			break // they are too few
		}
		if n++; n == 1 || w.At.Before(first) {
			first = w.At
		}
		if w.At.After(last) {
			last = w.At
		}
	}
	return first, last, n, nil
}

// stand waits until all contenders wait and nothing happens, or for a time, and returns how many stand.
func (t *throng) stand() (int, error) {
	if _, _, err := quiet(t.Context(), takesIn, func() bool { return t.own && t.Waiting() < t.n }); err != nil {
		return 0, err
	}
	if t.own {
		return t.Waiting(), nil
	}
	return t.n - int(t.failed.Load()), nil
}

// seated leads in many elections until it is killed, or until its input ends.
func (l *lab) seated(ctx context.Context, e errand, stdout io.Writer) error {
	say := func(w word) { _ = json.NewEncoder(stdout).Encode(w) }
	var b backend.Backend
	var err error
	if e.Companion {
		b, err = accompanied(func() (backend.Backend, error) {
			at, err := l.service.open(e.TTL)
			return at.backend, err
		}, say)
		if err != nil {
			return err
		}
	}
	before, err := resident(self)
	if err != nil {
		return err
	}
	t, err := l.throng(ctx, e, b)
	if err != nil {
		return err
	}
	_, _, n, err := t.take(takesIn)
	if err != nil {
		return err
	}
	say(word{Seats: &seats{n, before}})
	_, err = io.Copy(io.Discard, os.Stdin)
	t.close()
	return err
}

// standby starts a process that leads in many elections, stands in all of them, and ends that process.
func (l *lab) standby(ctx context.Context, e errand) (row seatsRow, err error) {
	began := time.Now()
	led := e
	led.Of = ofSeated
	v, err := l.bear(ctx, led)
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, v.bury()) }()
	if err := v.hear(ctx, word.seated); err != nil {
		return row, err
	}
	row.Led, row.Took = v.Seats.Present, time.Since(began)
	before, err := resident(self)
	if err != nil {
		return row, err
	}
	var b backend.Backend
	if e.Companion {
		at, err := l.service.open(e.TTL)
		if err != nil {
			return row, err
		}
		b = at.backend
	}
	t, err := l.throng(ctx, e, b)
	if err != nil {
		return row, err
	}
	defer t.close() // so that the server has nothing left to end beside the next process
	row.Stood, err = t.stand()
	if err == nil && t.NobodyElse() != nil {
		row.Stood = max(row.Stood-1, 0) // the other process has lost a seat already
	}
	if err != nil || row.Led < e.N || row.Stood < e.N {
		return row, err
	}
	here, err := resident(self)
	if err != nil {
		return row, err
	}
	there, err := resident(strconv.Itoa(v.cmd.Process.Pid))
	if err != nil {
		return row, err
	}
	row.Leads, row.Waits = (there-v.Seats.Before)/float64(e.N), (here-before)/float64(e.N)

	sent, cpu, killed := l.service.sent(), cpuTime(), time.Now()
	if e.Graceful {
		err = v.in.Close()
	} else {
		killed, err = v.kill()
	}
	if err != nil {
		return row, err
	}
	first, last, n, err := t.take(patience)
	if err != nil {
		return row, err
	}
	_, used, err := quiet(t.Context(), takesIn, func() bool { return false })
	row.First, row.Last, row.CPU, row.Unserved = first.Sub(killed), last.Sub(killed), used-cpu, e.N-n
	now := l.service.sent()
	row.Requests, row.Watches = now.requests-sent.requests, now.watches-sent.watches
	return row, err
}
