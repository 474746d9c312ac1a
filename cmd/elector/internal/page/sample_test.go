package page

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/cmd/elector/internal/report"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/strategy/catalog"
)

// sample is a made-up report as read back from JSON: its figures are from no machine and no service. It has
// all that a report can have, in realistic sizes.
func sample(t *testing.T) report.Report {
	t.Helper()
	data := must.Get(json.Marshal(makeUp()))(t)
	var r report.Report
	require.NoError(t, json.Unmarshal(data, &r))
	return r
}

var madeUp = []string{"fair", "unfair", "kafka", "parentwatch", "ranked"}

// makeUp invents a report.
func makeUp() report.Report {
	r := report.Report{
		Schema:  report.Schema,
		Made:    time.Date(2020, 2, 29, 12, 0, 0, 0, time.UTC),
		Machine: report.Machine{OS: "linux", Arch: "amd64", CPUs: 2, Go: "go1.26.7"},
		Method: report.Method{
			Command: "elector compare -strategies " + strings.Join(madeUp, ",") + " -n 3,10,30,100,1000,5000 -backend memory,zk://127.0.0.1:2181 -changes 120 -crashes 20 -html report.html",
			Seed:    7, Changes: 120, Crashes: 20, Churn: 0.5, Delay: time.Millisecond, TTL: 4 * time.Second,
		},
	}
	dice := rand.New(rand.NewPCG(1, 2))
	for s, service := range []string{"memory: (made up)", "zk://127.0.0.1:2181 (made up)"} {
		ns := []int{3, 10, 30, 100, 1000, 5000}[:6-2*s]
		for _, strategy := range madeUp {
			for _, n := range ns {
				r.Runs = append(r.Runs, invent(dice, service, strategy, n, 120, 20))
			}
			r.Growth = append(r.Growth, inventGrowth(service, strategy)...)
		}
	}
	r.Runs[len(r.Runs)-1].Truncated = "the time for one run was over after 31 leader changes"
	return r
}

// ordered reports whether candidates lead in turn.
func ordered(strategy string) bool {
	item, _ := catalog.Named(strategy)
	return item.Ordered
}

// inventTime returns a time without a leader, in nanoseconds.
func inventTime(strategy string, n int) float64 {
	each := map[string]float64{"unfair": 22e3, "kafka": 47e3, "parentwatch": 31e3 + 12*float64(n)}[strategy]
	return 1.05e6 + each*float64(n)
}

func inventCost(strategy string, n int) report.Cost {
	f := float64(n)
	switch strategy {
	case "fair":
		return report.Cost{WakeUps: 2, Operations: 6, Writes: 3, Watches: 3, Bytes: 310}
	case "ranked":
		return report.Cost{WakeUps: 2, Operations: f + 8, Writes: 3, Watches: 4, Bytes: 130*f + 900}
	case "parentwatch":
		return report.Cost{WakeUps: 2 * f, Operations: 2*f + 4, Writes: 2, Watches: 2 * f, Bytes: 2*f*f*31 + 200}
	case "kafka":
		return report.Cost{WakeUps: 2*f - 1, Operations: 4*f + 2, Writes: f, Refused: f - 1, Watches: 2 * f, Bytes: 190 * f}
	}
	return report.Cost{WakeUps: f - 1, Operations: 2*f + 1, Writes: f, Refused: f - 2, Watches: f, Bytes: 95 * f}
}

func inventGrowth(service, strategy string) []report.Growth {
	var out []report.Growth
	for figure, of := range map[string]func(n int) float64{
		"wakeUps":    func(n int) float64 { return inventCost(strategy, n).WakeUps },
		"operations": func(n int) float64 { return inventCost(strategy, n).Operations },
		"bytes":      func(n int) float64 { return inventCost(strategy, n).Bytes },
		"leaderless": func(n int) float64 { return inventTime(strategy, n) },
	} {
		out = append(out, report.Growth{Service: service, Strategy: strategy, Figure: figure,
			Slope: (of(300) - of(3)) / 297, Exponent: math.Round(100*math.Log(of(300)/of(3))/math.Log(100)) / 100, R2: 0.98})
	}
	slices.SortFunc(out, func(a, b report.Growth) int { return int(a.Figure[0]) - int(b.Figure[0]) })
	return out
}

// invent makes up a run.
func invent(dice *rand.Rand, service, strategy string, n, changes, crashes int) report.Run {
	run := report.Run{Service: service, Strategy: strategy, N: n, PerChange: inventCost(strategy, n),
		PerJoin: report.Cost{Operations: 3, Writes: 1, Watches: 2, Bytes: 140}}
	if service[0] == 'z' {
		run.Server = map[string]float64{"packets_received": run.PerChange.Operations + 2, "packets_sent": run.PerChange.Operations + run.PerChange.WakeUps}
	}
	around := func(middle float64) time.Duration { return time.Duration(middle * math.Exp(dice.NormFloat64()*0.18)) }
	var resigned, crashed, unnoticed []time.Duration
	for range changes - crashes {
		resigned = append(resigned, around(inventTime(strategy, n)))
	}
	for range crashes {
		crashed = append(crashed, around(inventTime(strategy, n)-0.3e6))
		unnoticed = append(unnoticed, around(4.1e9))
	}
	run.Resigned, run.Crashed, run.Unnoticed = report.NewLeaderless(resigned), report.NewLeaderless(crashed), report.NewLeaderless(unnoticed).Quantiles

	wins := make([]int, n)
	var waited []time.Duration
	for i := range changes {
		winner := i % len(wins)
		turns := float64(n)
		if !ordered(strategy) {
			// The first one told has the best chance.
			winner = min(int(dice.ExpFloat64()*float64(n)/6), len(wins)-1)
			turns = 1 + dice.ExpFloat64()*float64(n)/2
		}
		wins[winner]++
		waited = append(waited, around(turns*30e6))
	}
	run.Fairness = report.Fairness{Wins: wins, Jain: report.Jain(wins), LongestWait: min(n, changes)}
	if !ordered(strategy) {
		run.Fairness.LongestWait, run.Fairness.Inversions = min(4*n, changes), 0.47
	}
	run.Waits = report.NewHistogram(waited)
	if n == 30 {
		run.Sample = inventSample(dice, strategy, n)
	}
	return run
}

// inventSample makes up one change of leader, from candidate 0 to another.
func inventSample(dice *rand.Rand, strategy string, n int) *report.Timeline {
	us := func(v float64) time.Duration { return time.Duration(v * float64(time.Microsecond)) }
	var events []report.Event
	add := func(candidate int, kind report.EventKind, at, took float64) {
		events = append(events, report.Event{At: us(at), Took: us(took), Candidate: candidate, Kind: kind})
	}
	add(3, report.Read, -100, 40)
	add(0, report.Ended, 0, 0)
	add(0, report.Wrote, 20, 620)
	switch item, _ := catalog.Named(strategy); {
	case !item.Herd:
		add(1, report.WokenUp, 820, 0)
		add(1, report.Elected, 850, 0)
		add(1, report.Wrote, 880, 540)
		add(2, report.WokenUp, 1480, 0)
		add(2, report.Read, 1500, 300)
	case !item.Ordered:
		winner := 1 + dice.IntN(n-1)
		for i := 1; i < n; i++ {
			at := 800 + float64((i*7)%n)*14
			add(i, report.WokenUp, at, 0)
			kind, took := report.Refused, 500+float64((i*7)%n)*45
			if i == winner {
				kind, took = report.Wrote, 430
				add(i, report.Elected, at+20+took, 0)
			}
			add(i, kind, at+20, took)
			add(i, report.Read, at+40+took, 300+float64(i)*8)
		}
	default:
		for i := 1; i < n; i++ {
			at := 800 + float64(i)*13
			add(i, report.WokenUp, at, 0)
			took := 450 + float64(i)*60
			add(i, report.Read, at+10, took)
			if i == 1 {
				add(i, report.Elected, at+20+took, 0)
			}
		}
	}
	slices.SortStableFunc(events, func(a, b report.Event) int { return int(a.At - b.At) })
	return &report.Timeline{Events: events}
}

// crowd is a report of as many candidates as are compared on memory, and of no fewer, so that they must be
// drawn.
func crowd(t *testing.T) report.Report {
	r := sample(t)
	r.Growth = nil
	r.Runs = slices.DeleteFunc(r.Runs, func(r report.Run) bool { return r.N != 5000 })
	for i := range r.Runs {
		r.Runs[i].Sample = inventSample(rand.New(rand.NewPCG(1, 2)), r.Runs[i].Strategy, 5000)
	}
	return r
}

// hostile is a report in which every text tries to leave its place.
func hostile(t *testing.T) report.Report {
	r := sample(t)
	const evil = `"><script>alert(1)</script><img src=http://evil.example/x onerror=alert(1)>]]>&'\` + "\x00\u202e"
	for i := range r.Runs {
		run := &r.Runs[i]
		run.Service += evil
		run.Truncated = evil
		if run.Strategy == "kafka" {
			run.Strategy = "</svg>" + evil
		}
		if run.Server != nil {
			run.Server[evil] = 1
		}
	}
	for i := range r.Growth {
		r.Growth[i].Service += evil
	}
	r.Method.Command, r.Machine.OS, r.Machine.Go = evil, evil, evil
	return r
}
