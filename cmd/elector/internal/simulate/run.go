package simulate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/meter"
	"github.com/elector-go/elector/cmd/elector/internal/bubble"
	"github.com/elector-go/elector/cmd/elector/internal/report"
)

// Service is the Run.Service of simulated runs.
const Service = "simulation"

const (
	// sampleN is the largest number of candidates of which a timeline can still be seen,
	// winsN the largest of which the wins of each are told.
	sampleN, winsN = 100, 1000
	defaultTTL     = 10 * time.Second
)

// Config says what to simulate.
type Config struct {
	Strategy elector.Strategy
	N        int // candidates, 2 or more
	// Changes of leader by resignation, and Crashes, in random order. Who has led comes
	// back, as the last, before the next one.
	Changes, Crashes int
	Model            report.Model
	TTL              time.Duration // session timeout; zero means 10 s
	// Seed makes all that is random: the same one, the same figures, as long as no two
	// requests reach the server in the same nanosecond.
	Seed uint64
	// Progress, if set, is told after each leader change. It must not block, and time.Now
	// in it is the simulation's.
	Progress func(done, all int)
}

func (c Config) validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("simulate: "+format, args...)) }
	if c.Strategy == nil {
		bad("Config.Strategy is nil: give one, for example fair.New()")
	}
	if c.N < 2 {
		bad("Config.N %d: give 2 or more, so that somebody can follow", c.N)
	}
	if c.Changes < 0 || c.Crashes < 0 {
		bad("Config.Changes %d and Config.Crashes %d: give 0 or more", c.Changes, c.Crashes)
	}
	if c.TTL < 0 {
		bad("Config.TTL %v is negative", c.TTL)
	}
	for name, d := range map[string]time.Duration{
		"RoundTrip": c.Model.RoundTrip, "Write": c.Model.Write, "Read": c.Model.Read, "Notice": c.Model.Notice, "KiB": c.Model.KiB,
	} {
		if d < 0 {
			bad("Config.Model.%s %v is negative", name, d)
		}
	}
	return errors.Join(errs...)
}

// Run simulates one run, in real time that grows with N times the number of changes, and
// with its square for strategies whose candidates list each other. It must not be called
// from within a bubble of testing/synctest. When ctx ends it gives up, as soon as it comes
// to ask.
//
// Times in the run are simulated ones. Wins are left out where N is over 1,000, and there is a
// Sample, of the first change, up to N = 100. Server has "packets": requests, answers and
// notices, as ZooKeeper's packets_received and packets_sent would count them.
func Run(ctx context.Context, cfg Config) (report.Run, error) {
	if err := cfg.validate(); err != nil {
		return report.Run{}, err
	}
	if cfg.TTL == 0 {
		cfg.TTL = defaultTTL
	}
	var run report.Run
	err := bubble.Run(func() (err error) {
		run, err = simulated(ctx, cfg)
		return err
	})
	if ctx.Err() != nil {
		err = errors.Join(ctx.Err(), err)
	}
	if err != nil {
		return report.Run{}, fmt.Errorf("simulate: %s with %d candidates: %w", cfg.Strategy.Name(), cfg.N, err)
	}
	return run, nil
}

func simulated(ctx context.Context, cfg Config) (run report.Run, err error) {
	random := rand.New(rand.NewPCG(cfg.Seed, uint64(cfg.N)))
	server := newServer(ctx, random)
	crowd, err := newCrowd(cfg, server)
	if err != nil {
		return run, err
	}
	defer func() {
		server.use(report.Model{})
		err = errors.Join(err, crowd.close())
	}()
	m := &measurement{crowd: crowd, random: random, wins: make([]int, cfg.N)}
	m.leader, err = crowd.join()
	if err != nil {
		return run, err
	}
	for i, who := range crowd.all {
		who.rank, who.arrived = i, time.Now()
	}
	m.arrivals = cfg.N
	m.elected(m.leader)
	server.use(cfg.Model)
	kinds := make([]bool, cfg.Changes+cfg.Crashes)
	for i := range cfg.Crashes {
		kinds[i] = true
	}
	random.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	for i, crash := range kinds {
		if err := ctx.Err(); err != nil {
			return run, err
		}
		if err := m.change(crash); err != nil {
			return run, fmt.Errorf("leader change %d of %d: %w", i+1, len(kinds), err)
		}
		if cfg.Progress != nil {
			cfg.Progress(i+1, len(kinds))
		}
	}
	return m.run(), nil
}

// A measurement is what a run has shown so far.
type measurement struct {
	crowd  *crowd
	random *rand.Rand
	leader win

	changes, arrivals            int
	resigned, crashed, unnoticed []time.Duration
	perChange, perJoin           meter.Counts // sums
	packets                      int
	wins, ranks                  []int // ranks: of arrival, in the order of election
	waits                        []time.Duration
	longest                      int
	sample                       *report.Timeline
}

// change has the leader go, another one follow, and the old one come back.
func (m *measurement) change(crash bool) error {
	c := m.crowd
	// A leader leads for a while, and crashes at some time between two heartbeats.
	time.Sleep(time.Duration(m.random.Int64N(int64(c.cfg.TTL / 3))))
	watching := m.sample == nil && c.cfg.N <= sampleN
	if watching {
		m.watchClosely(crash)
	}
	before, packets := c.counts(), c.server.sent()
	old := m.leader.by
	gone := time.Now()
	if crash {
		unnoticed, err := c.crash(old)
		if err != nil {
			return err
		}
		m.unnoticed = append(m.unnoticed, unnoticed)
		gone = time.Now()
	} else if err := m.leader.term.Resign(c.ctx); err != nil {
		return err
	}
	next, err := c.next()
	if err != nil {
		return err
	}
	if next.by == old || next.term.Token() <= m.leader.term.Token() {
		return fmt.Errorf("candidate %d with token %d follows candidate %d with token %d", next.by.number, next.term.Token(), old.number, m.leader.term.Token())
	}
	leaderless := next.at.Sub(gone)
	m.changes++
	m.elected(next)
	if err := c.settle(c.cfg.N - 2); err != nil {
		return err
	}
	if watching {
		m.watched(old, gone, next)
	}
	if crash {
		m.crashed = append(m.crashed, leaderless)
		if err := c.bury(old); err != nil {
			return err
		}
	} else {
		m.resigned = append(m.resigned, leaderless)
	}
	between := c.counts()
	old.rank, old.arrived, old.changes = m.arrivals, time.Now(), m.changes
	m.arrivals++
	c.enter(old)
	if err := c.settle(c.cfg.N - 1); err != nil {
		return err
	}
	after := c.counts()
	m.perChange = m.perChange.Add(after.Sub(before))
	m.perJoin = m.perJoin.Add(after.Sub(between))
	m.packets += c.server.sent() - packets
	return nil
}

// elected notes who leads now.
func (m *measurement) elected(w win) {
	m.leader = w
	m.wins[w.by.number]++
	m.ranks = append(m.ranks, w.by.rank)
	m.waits = append(m.waits, w.at.Sub(w.by.arrived))
	m.longest = max(m.longest, m.changes-w.by.changes)
}

// watchClosely begins a timeline.
func (m *measurement) watchClosely(crash bool) {
	m.sample = &report.Timeline{Crash: crash}
	m.crowd.server.watch(func(e report.Event) { m.sample.Events = append(m.sample.Events, e) })
}

// watched ends it. Its times are since the leader has gone.
func (m *measurement) watched(old *candidate, gone time.Time, next win) {
	m.crowd.server.watch(nil)
	events := &m.sample.Events
	*events = append(*events,
		report.Event{At: sinceStart(gone), Candidate: old.number, Kind: report.Ended},
		report.Event{At: sinceStart(next.at), Candidate: next.by.number, Kind: report.Elected})
	for i := range *events {
		(*events)[i].At -= sinceStart(gone)
	}
	slices.SortStableFunc(*events, func(a, b report.Event) int { return int(a.At - b.At) })
}

func (m *measurement) run() report.Run {
	cfg := m.crowd.cfg
	for _, who := range m.crowd.all {
		if who != m.leader.by {
			m.longest = max(m.longest, m.changes-who.changes)
		}
	}
	run := report.Run{
		Service: Service, Strategy: cfg.Strategy.Name(), N: cfg.N,
		Resigned:  report.NewLeaderless(m.resigned),
		Crashed:   report.NewLeaderless(m.crashed),
		Unnoticed: report.Quantile(m.unnoticed),
		PerChange: report.MeanCost(m.perChange, m.changes), PerJoin: report.MeanCost(m.perJoin, m.changes),
		Fairness: report.Fairness{Jain: report.Jain(m.wins), LongestWait: m.longest, Inversions: report.Inversions(m.ranks)},
		Waits:    report.NewHistogram(m.waits),
		Sample:   m.sample,
	}
	if cfg.N <= winsN {
		run.Fairness.Wins = m.wins
	}
	if m.changes > 0 {
		run.Server = map[string]float64{"packets": float64(m.packets) / float64(m.changes)}
	}
	return run
}
