package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/crowd"
	"github.com/elector-go/elector/internal/process"
	"github.com/elector-go/elector/internal/program"
	"github.com/elector-go/elector/lastwill"
	"github.com/elector-go/elector/strategy/fair"
)

const (
	// deathTarget is the limit for the median with a companion, deathRatio the same in raw limits, and
	// deathWorst the limit for the 99th percentile.
	deathTarget, deathRatio, deathWorst = 15 * time.Millisecond, 2.0, 100 * time.Millisecond
	// weightTarget is the limit for a companion's memory.
	weightTarget = 8 << 20
	// mostMortals is the maximum number of candidates that are separate processes at a time.
	mostMortals = 10
	// fewWithout is how many sessions are measured that time out.
	fewWithout = 3
)

// ofMortal is a candidate in a process that is killed, which has N more sessions.
const ofMortal = "mortal"

// A word is what such a process reports about itself, bit by bit.
type word struct {
	Companion int           `json:",omitempty"` // its process, once that knows everything
	Stands    bool          `json:",omitempty"` // its candidate waits for its turn, or leads
	Key       string        `json:",omitempty"` // its candidate's entry, once the candidate leads
	Will      *backend.Will `json:",omitempty"`
	Seats     *seats        `json:",omitempty"` // those that it has, once it has tried for all
}

func (w word) accompanied() bool { return w.Companion != 0 }
func (w word) stands() bool      { return w.Stands }
func (w word) leads() bool       { return w.Will != nil }
func (w word) seated() bool      { return w.Seats != nil }

// mortal runs a candidate in its process until the process is killed.
func (l *lab) mortal(ctx context.Context, e errand, stdout io.Writer) error {
	say := func(w word) { _ = json.NewEncoder(stdout).Encode(w) } // if nobody listens, the process is killed
	open := func() (backend.Backend, error) {
		if e.Companion {
			at, err := l.service.open(e.TTL)
			return at.backend, err
		}
		at, err := l.brief(l.shortest())
		return at.Backend, err
	}
	var b backend.Backend
	var err error
	if e.Companion {
		b, err = accompanied(open, say)
	} else {
		b, err = open()
	}
	if err != nil {
		return err
	}
	for range e.N {
		if _, err := b.Open(ctx, backend.OpenOptions{TTL: e.TTL}); err != nil {
			return err
		}
	}
	one, err := elector.New(elector.Config{
		Backend: b, Strategy: fair.Strategy{}, Election: e.Path, ID: strconv.Itoa(os.Getpid()),
		SurveyEvery: -1, // like those in the other process
		Hooks: elector.Hooks{Stage: func(ev elector.StageEvent) {
			if ev.Stage == elector.StageReady && !ev.Completed {
				say(word{Stands: true})
			}
		}},
	})
	if err != nil {
		return err
	}
	term, err := one.Campaign(ctx)
	if err != nil {
		return err
	}
	guard := term.Guard()
	will, err := guard.Session.Will()
	if err != nil {
		return err
	}
	say(word{Stands: true, Key: guard.Conditions[0].Entry.Key, Will: &will})
	_, err = io.Copy(io.Discard, os.Stdin) // until nobody is left to kill it
	return err
}

// accompanied opens a backend with a companion.
func accompanied(open lastwill.Opener, say func(word)) (backend.Backend, error) {
	there := make(chan lastwill.Event, 10)
	b, err := lastwill.Start(open, lastwill.Options{
		Logger:  slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		OnEvent: func(e lastwill.Event) { there <- e },
	})
	if err != nil {
		return nil, err
	}
	event := <-there
	if event.Kind != lastwill.Ready {
		return nil, fmt.Errorf("the companion: %s: %w", event.Kind, event.Err)
	}
	say(word{Companion: event.PID})
	return b, nil
}

// A victim is such a process, seen from the process that kills it.
type victim struct {
	cmd   *exec.Cmd
	in    io.Closer // its standard input
	words chan word // each word includes the ones before
	word            // the latest word
}

// bear starts a victim, and waits until it has a companion, if it needs one.
func (l *lab) bear(ctx context.Context, e errand) (v *victim, err error) {
	v = &victim{words: make(chan word, 10)}
	if v.cmd, err = l.errand(ctx, e); err != nil {
		return nil, err
	}
	v.cmd.Stderr = os.Stderr
	if v.in, err = v.cmd.StdinPipe(); err != nil { // it ends with this process
		return nil, err
	}
	out, err := v.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := v.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(v.words)
		var w word
		for in := json.NewDecoder(out); in.Decode(&w) == nil; {
			v.words <- w
		}
	}()
	if e.Companion {
		err = v.hear(ctx, word.accompanied)
	}
	return v, err
}

// hear blocks until what holds of the victim's words.
func (v *victim) hear(ctx context.Context, what func(word) bool) error {
	late := time.NewTimer(patience)
	defer late.Stop()
	for !what(v.word) {
		var err error
		select {
		case w, ok := <-v.words:
			if ok {
				v.word = w
				continue
			}
			err = errors.New("the process to be killed has ended by itself")
		case <-late.C:
			err = fmt.Errorf("the process to be killed has said nothing for %v", patience)
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		return errors.Join(err, v.bury())
	}
	return nil
}

// kill kills the process, and returns the time just before that.
func (v *victim) kill() (time.Time, error) {
	began := time.Now()
	return began, v.cmd.Process.Kill()
}

// bury kills the victim if it is alive, reaps it, and waits until its companion has done its work.
func (v *victim) bury() error {
	if _, err := v.kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	_ = v.cmd.Wait() // it was killed
	for late := time.Now().Add(patience); v.accompanied() && !process.Ended(v.Companion); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			return errors.New("the companion of a dead process does not end")
		}
	}
	return nil
}

func deathPart(ctx context.Context, l *lab) (section, error) {
	result := section{Title: fmt.Sprintf("%s: death of the leader's process, fair, %d server(s)", l.facts.title, l.cfg.servers)}
	v, err := l.bear(ctx, errand{Of: ofMortal, Path: "/bench/weight-0", Companion: true})
	if err != nil {
		l.say("death: left out: %v", err)
		result.Tables = []table{{About: "Left out: there can be no companion here."}}
		return result, nil
	}
	if err := v.bury(); err != nil {
		return result, err
	}
	deaths, err := l.deaths(ctx)
	if err != nil {
		return result, err
	}
	weights := table{
		About: fmt.Sprintf("A companion while nothing happens, over %v: its memory (VmRSS), what of that is in no file (RssAnon), and how often its threads have gone to sleep.", l.cfg.rest),
		Head:  []string{"sessions", "resident", "of that private", "wake-ups per minute"},
	}
	for _, sessions := range []int{1, 100} {
		if err := l.weigh(ctx, sessions, &weights); err != nil {
			return result, fmt.Errorf("a companion of %d sessions: %w", sessions, err)
		}
	}
	result.Tables = []table{deaths, weights}
	return result, nil
}

// deaths measures deaths with all numbers of candidates.
func (l *lab) deaths(ctx context.Context) (table, error) {
	t := table{
		About: fmt.Sprintf("The leader is a process of its own, which is killed (SIGKILL): the delay from just before that to the return of the next Campaign, of N candidates, of which all others but up to %d are in the process that kills and measures. With a companion (lastwill.Start) the session timeout is %v; without, the leader has: %s. The raw limit, taken in turn with it: the same process, alone in its election, is killed; a goroutine here waits for it (a pidfd), and then ends its session, %s; the delay from just before the kill to the event of its entry's deletion at another bare client. %v idle before each. %s",
			mostMortals-1, l.cfg.ttl, l.shortest().name, l.facts.ends, l.cfg.idle, l.facts.sync),
		Head: []string{"N", "samples", "raw p50", "p90", "p99", "max", "with a companion p50", "p90", "p99", "max", "p50 / raw p50", "without: samples", "median", "max"},
	}
	r, err := l.newRawPair(ctx)
	if err != nil {
		return t, err
	}
	defer r.close()
	for _, n := range l.few() {
		if err := l.deathsAt(ctx, r, n, &t); err != nil {
			return t, fmt.Errorf("with N = %d: %w", n, err)
		}
	}
	return t, nil
}

// shortest returns the kind of sessions that end soonest.
func (l *lab) shortest() crashKind { return l.facts.crashes[len(l.facts.crashes)-1] }

func (l *lab) deathsAt(ctx context.Context, r *rawPair, n int, t *table) error {
	if err := program.EnoughFiles(n*l.facts.files + otherFiles); err != nil {
		return err
	}
	// in takes samples of deaths and of each other kind, in turn.
	in := func(companion bool, samples int, others ...func(*queue) (time.Duration, error)) ([]crowd.Quantiles, int64, error) {
		q, err := l.queue(ctx, n, companion, samples)
		if err != nil {
			return nil, 0, err
		}
		l.say("death: N = %d, companion: %v, taking %d samples", n, companion, samples)
		kinds := []sampler{q.death}
		for _, other := range others {
			kinds = append(kinds, func() (time.Duration, error) { return other(q) })
		}
		all, err := inTurn(samples, kinds...)
		return all, q.trouble.Load(), errors.Join(err, q.close())
	}
	lonely := 0
	both, trouble, err := in(true, l.cfg.samples, func(q *queue) (time.Duration, error) {
		lonely++
		return l.rawDeath(q, r, lonely)
	})
	if err != nil {
		return err
	}
	alone, more, err := in(false, min(fewWithout, l.cfg.crashSamples))
	if err != nil {
		return err
	}
	with, raw, without := both[0], both[1], alone[0]
	t.add(n, with.N, raw.P50, raw.P90, raw.P99, raw.Max, with.P50, with.P90, with.P99, with.Max, ratio(with.P50, raw.P50), without.N, without.P50, without.Max)
	t.noteTrouble(n, trouble+more)
	if !l.cfg.quick {
		met := with.P50 <= deathTarget && ratio(with.P50, raw.P50) <= deathRatio && with.P99 <= deathWorst
		t.note("Target at N = %d: p50 within %v and %.0f raw limits, p99 within %v. %s.", n, deathTarget, deathRatio, deathWorst, verdict(met))
	}
	return nil
}

// A queue is the candidates of a fair election: some are in processes that are killed, each with a
// candidate of this process right behind it.
type queue struct {
	*field // the candidates in this process
	lab    *lab
	to     errand    // of the other processes
	line   []*victim // in their order, nil for a candidate of this process
}

// queue lines up n candidates; the first one will be killed.
func (l *lab) queue(ctx context.Context, n int, companion bool, samples int) (*queue, error) {
	mortals := min(n/2, samples, mostMortals)
	path := fmt.Sprintf("/bench/death-%d-%v", n, companion)
	f, err := newField(ctx, n-mortals, fair.Strategy{}, path, l.opener())
	if err != nil {
		return nil, err
	}
	f.present = len(f.Candidates) + 1 // plus the leader, which is in another process whenever present is read
	q := &queue{field: f, lab: l, to: errand{Of: ofMortal, Path: path, Companion: companion}}
	for i := range mortals {
		if err = q.bear(); err == nil {
			err = q.enter(f.Candidates[i])
		}
		if err != nil {
			return nil, errors.Join(err, q.close())
		}
	}
	if err = f.EnterAll(f.Candidates[mortals:], l.cfg.join); err != nil {
		return nil, errors.Join(err, q.close())
	}
	q.line = append(q.line, make([]*victim, n-2*mortals)...)
	return q, nil
}

// bear makes a process enter at the end of the line.
func (q *queue) bear() error {
	v, err := q.lab.bear(q.Context(), q.to)
	if err != nil {
		return err
	}
	q.line = append(q.line, v)
	return v.hear(q.Context(), word.stands)
}

// enter makes a candidate of this process enter at the end of the line.
func (q *queue) enter(c *crowd.Candidate) error {
	q.line = append(q.line, nil)
	return q.EnterAll([]*crowd.Candidate{c}, 1)
}

// death kills the leader, and returns the time until the next candidate's Campaign has returned. Then it
// passes the seat on until a process has it.
func (q *queue) death() (time.Duration, error) {
	v := q.line[0]
	if err := v.hear(q.Context(), word.leads); err != nil {
		return 0, err
	}
	if err := q.idle(q.lab.cfg.idle); err != nil {
		return 0, err
	}
	killed, err := v.kill()
	if err != nil {
		return 0, err
	}
	next, err := q.Next()
	q.line = q.line[1:]
	if err := errors.Join(err, v.bury()); err != nil {
		return 0, err
	}
	took := next.At.Sub(killed)
	if err := q.bear(); err != nil {
		return 0, err
	}
	for q.line[0] == nil {
		old := next
		if err := old.Term.Resign(q.Context()); err != nil {
			return 0, err
		}
		q.line = q.line[1:]
		if q.line[0] == nil {
			if next, err = q.Next(); err != nil {
				return 0, err
			}
		}
		if err := q.enter(old.Candidate); err != nil {
			return 0, err
		}
	}
	return took, nil
}

func (q *queue) close() (err error) {
	for _, v := range q.line {
		if v != nil {
			err = errors.Join(err, v.bury())
		}
	}
	return errors.Join(err, q.field.close())
}

// rawDeath kills a process of the same kind, whose candidate is alone. A goroutine here waits for that and
// ends the session with the bare client, and another client's watch on the entry fires: the delay is from
// the kill to that.
func (l *lab) rawDeath(q *queue, r *rawPair, i int) (time.Duration, error) {
	ctx := q.Context()
	v, err := l.bear(ctx, errand{Of: ofMortal, Path: fmt.Sprintf("%s-raw-%d", q.to.Path, i)})
	if err != nil {
		return 0, err
	}
	if err := v.hear(ctx, word.leads); err != nil {
		return 0, err
	}
	fired, err := r.watcher.watch(r.ctx, v.Key)
	for quiet := false; err == nil && !quiet; {
		if err = q.idle(l.cfg.idle); err != nil {
			break
		}
		select {
		case <-fired: // the candidate has written its value as a leader
			fired, err = r.watcher.watch(r.ctx, v.Key)
		default:
			quiet = true
		}
	}
	if err != nil {
		return 0, errors.Join(err, v.bury())
	}
	ended := make(chan error, 1)
	go func() {
		_, err := v.cmd.Process.Wait() // on Linux by a pidfd
		ended <- errors.Join(err, r.owner.end(ctx, *v.Will))
	}()
	killed, err := v.kill()
	if err = errors.Join(err, <-ended); err != nil {
		return 0, err
	}
	at, err := await(ctx, fired)
	return at.Sub(killed), err
}

// weigh measures a companion at rest.
func (l *lab) weigh(ctx context.Context, sessions int, t *table) (err error) {
	l.say("death: a companion of %d sessions at rest", sessions)
	v, err := l.bear(ctx, errand{Of: ofMortal, N: sessions - 1, Path: fmt.Sprintf("/bench/weight-%d", sessions), Companion: true})
	if err != nil {
		return err
	}
	if err := v.hear(ctx, word.leads); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.bury()) }()
	pid := strconv.Itoa(v.Companion)
	if err := program.Sleep(ctx, time.Second); err != nil { // by then it has started
		return err
	}
	before, err := wakeups(pid)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := program.Sleep(ctx, l.cfg.rest); err != nil {
		return err
	}
	after, err := wakeups(pid)
	if err != nil {
		return err
	}
	perMinute := (after - before) / time.Since(began).Minutes()
	memory, err := resident(pid)
	if err != nil {
		return err
	}
	private, err := kilobytes(pid, "RssAnon")
	t.add(sessions, kib(memory), kib(private), tenth(perMinute))
	if !l.cfg.quick {
		t.note("Target of a companion of %d sessions: at most %s, and no wake-ups. %s.", sessions, kib(weightTarget), verdict(memory <= weightTarget && perMinute == 0))
	}
	return err
}

// wakeups returns how often the threads of a process have waited for something.
func wakeups(pid string) (sum float64, err error) {
	tasks, err := filepath.Glob("/proc/" + pid + "/task/*")
	if err == nil && len(tasks) == 0 {
		err = fmt.Errorf("process %s has ended", pid)
	}
	for _, task := range tasks {
		n, failed := proc(pid+"/task/"+filepath.Base(task)+"/status", "voluntary_ctxt_switches")
		sum, err = sum+n, errors.Join(err, failed)
	}
	return sum, err
}
