package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/conformance/history"
	"github.com/elector-go/elector/internal/must"
)

const ms = int64(time.Millisecond)

// sound returns the evidence of a campaign without violations: one leads from 200 ms to 1 s and writes
// twice; two leads from 1.1 s to 2 s and writes once.
func sound() *evidence {
	write := func(value string, version uint64) []history.Write {
		w := history.Write{Op: history.CompareAndSet, Key: register, Value: value, Expected: version - 1, Version: version}
		if version == 1 {
			w.Op = history.Create
		}
		return []history.Write{w}
	}
	events := []history.Event{
		{ID: 1, Kind: history.Campaign, Process: "1.1", Candidate: "1", Token: 1, Call: 100 * ms, Return: 200 * ms},
		{ID: 2, Kind: history.Campaign, Process: "2.1", Candidate: "2", Token: 2, Call: 150 * ms, Return: 1100 * ms},
		{ID: 3, Kind: history.Valid, Process: "1.1", Candidate: "1", Token: 1, Term: 1, Call: 1000 * ms, Return: 1001 * ms},
		{ID: 4, Kind: history.Valid, Process: "2.1", Candidate: "2", Token: 2, Term: 2, Call: 2000 * ms, Return: 2001 * ms},
		{ID: 5, Kind: history.Commit, Process: "1.1", Token: 1, Term: 1, Call: 300 * ms, Return: 310 * ms, Writes: write("a<", 1)},
		{ID: 6, Kind: history.Commit, Process: "1.1", Token: 1, Term: 1, Call: 400 * ms, Return: 410 * ms, Writes: write("b<a", 2)},
		{ID: 7, Kind: history.Commit, Process: "2.1", Token: 2, Term: 2, Call: 1200 * ms, Return: 1210 * ms, Writes: write("c<b", 3)},
	}
	for i := range events {
		events[i].Outcome, events[i].Election = history.OK, election
	}
	events = append(events, history.Event{ID: 8, Kind: history.Note, Call: 2000 * ms, Return: 2000 * ms, Text: ended})
	return &evidence{
		history:  &history.History{Clock: history.MachineClock, Events: events, Until: 2001 * ms},
		lines:    []line{{"1.1", 1, 300 * ms, 301 * ms}, {"2.1", 2, 1200 * ms, 1201 * ms}},
		failover: failover{usual: 2 * time.Second},
	}
}

// event returns the event with an ID.
func (e *evidence) event(id uint64) *history.Event { return &e.history.Events[id-1] }

// add adds an event with the next ID.
func (e *evidence) add(event history.Event) {
	event.ID = uint64(len(e.history.Events) + 1)
	event.Election = election
	e.history.Events = append(e.history.Events, event)
}

// fault adds a fault of a kind.
func (e *evidence) fault(name string, begin, end int64) {
	for _, k := range append(kinds(), outage) {
		if k.name == name {
			e.faults = append(e.faults, meeting{k, begin, end})
		}
	}
}

// outOfTurn makes two enrol before one, which leads first.
func outOfTurn(e *evidence) {
	e.add(history.Event{Kind: history.Enter, Process: "1.1", Candidate: "1", Call: 180 * ms, Return: 190 * ms, Outcome: history.OK})
	e.add(history.Event{Kind: history.Enter, Process: "2.1", Candidate: "2", Call: 160 * ms, Return: 170 * ms, Outcome: history.OK})
}

// A sound history passes, and each possible violation is found.
func TestJudge(t *testing.T) {
	value := func(v string) []history.Write { // written over the last value
		return []history.Write{{Op: history.CompareAndSet, Key: register, Value: v, Expected: 3}}
	}
	for _, c := range []struct {
		name     string
		doctor   func(e *evidence)
		strategy string
		last     string // last value of the register
		finds    string // prefix of a violation; "" for none
	}{
		{name: "sound"},
		{name: "two are valid", doctor: func(e *evidence) { e.event(3).Call = 1150 * ms }, finds: "overlap: "},
		{name: "a token comes again", doctor: func(e *evidence) { e.event(2).Token = 1 }, finds: "token: "},
		{name: "tokens fall", finds: "token: ", doctor: func(e *evidence) {
			e.event(1).Token, e.event(2).Token = 2, 1
			e.event(7).Outcome = history.Unknown // counting it as done would be a violation, too
		}},
		{name: "a late write is accepted", finds: "end: ", last: "d<c", doctor: func(e *evidence) {
			e.add(history.Event{Kind: history.Commit, Process: "1.1", Token: 1, Term: 1, Call: 1300 * ms, Return: 1310 * ms, Outcome: history.OK, Writes: value("d<c")})
		}},
		{name: "a late write lands, whose writer was killed", finds: "end: ", last: "d<c", doctor: func(e *evidence) {
			e.add(history.Event{Kind: history.Commit, Process: "1.1", Token: 1, Term: 1, Call: 900 * ms, Outcome: history.Unknown, Writes: value("d<c")})
		}},
		{name: "a late write past the term is accepted", finds: "end: ", last: "d<c", doctor: func(e *evidence) {
			e.add(history.Event{Kind: history.Commit, Process: "1.1", Token: 1, Call: 1300 * ms, Return: 1310 * ms, Outcome: history.OK, Writes: value("d<c")})
		}},
		{name: "a write past the term is accepted, before there is a new one", last: "c<d", doctor: func(e *evidence) {
			late := e.event(7).Writes
			e.event(7).Writes = []history.Write{{Op: history.CompareAndSet, Key: register, Value: "c<d", Expected: 3, Version: 4}}
			late[0].Value = "d<b"
			e.add(history.Event{Kind: history.Commit, Process: "1.1", Token: 1, Call: 1050 * ms, Return: 1060 * ms, Outcome: history.OK, Writes: late})
		}},
		{name: "a write is lost", finds: "once: ", doctor: func(e *evidence) {
			e.add(history.Event{Kind: history.Commit, Process: "2.1", Token: 2, Term: 2, Call: 1300 * ms, Return: 1310 * ms, Outcome: history.OK, Writes: value("d<c")})
		}},
		{name: "a refused write is there", finds: "once: ", doctor: func(e *evidence) { e.event(6).Outcome = history.Refused }},
		{name: "what nobody knows is there", doctor: func(e *evidence) { e.event(6).Outcome = history.Unknown }},
		{name: "what nobody knows is not there", doctor: func(e *evidence) {
			e.add(history.Event{Kind: history.Commit, Process: "2.1", Token: 2, Term: 2, Call: 1300 * ms, Outcome: history.Unknown, Writes: value("d<c")})
		}},
		{name: "nobody wrote it", finds: "once: ", last: "d<x"},
		{name: "a ring", finds: "once: ", doctor: func(e *evidence) { e.event(5).Writes[0].Value = "a<b" }},
		{name: "a ghost", finds: "ghost: ", doctor: func(e *evidence) { e.ghosts = []string{"/chaos/election/x/seat"} }},
		{name: "a candidate gave up", finds: "stuck: ", doctor: func(e *evidence) { e.wrong = []string{"stuck: candidate 1.1 gave up"} }},
		{name: "nobody leads for too long", finds: "leaderless: ", doctor: func(e *evidence) {
			e.event(2).Return, e.event(4).Call, e.event(8).Call = 7000*ms, 9000*ms, 9000*ms
			e.event(7).Call, e.event(7).Return, e.history.Until = 7100*ms, 7200*ms, 9000*ms
			e.lines = nil
		}},
		{name: "nobody leads in the end", finds: "leaderless: ", doctor: func(e *evidence) { e.event(8).Call = 8000 * ms }},
		{name: "nobody leads, for there is no quorum", doctor: func(e *evidence) {
			e.event(8).Call = 8000 * ms
			e.fault("quorum lost", 1900*ms, 4000*ms)
		}},
		{name: "nobody leads long after there was no quorum", finds: "leaderless: ", doctor: func(e *evidence) {
			e.event(8).Call = 10_000 * ms
			e.fault("quorum lost", 1900*ms, 4000*ms)
		}},
		{name: "a fault that came too late explains nothing", finds: "leaderless: ", doctor: func(e *evidence) {
			e.event(8).Call = 8000 * ms
			e.fault("quorum lost", 7500*ms, 8000*ms)
		}},
		{name: "a line after the new leader's, of one who was paused", doctor: func(e *evidence) {
			e.lines = append(e.lines, line{"1.1", 1, 990 * ms, 1900 * ms})
		}},
		{name: "a line after the new leader's, of one who had looked", finds: "unfenced: ", doctor: func(e *evidence) {
			e.lines = append(e.lines, line{"1.1", 1, 1150 * ms, 1900 * ms})
		}},
		{name: "kafka leaves a token out", strategy: "kafka", finds: "token: ", doctor: func(e *evidence) { e.event(2).Token = 3 }},
		{name: "kafka loses a claim", strategy: "kafka", doctor: func(e *evidence) {
			e.event(2).Token = 3
			e.fault("SIGKILL", 900*ms, 1000*ms)
		}},
		{name: "others leave tokens out", doctor: func(e *evidence) { e.event(2).Token = 3 }},
		{name: "fair, and the first to come leads last", strategy: "fair", finds: "order: ", doctor: outOfTurn},
		{name: "parentwatch, and the first to come leads last", strategy: "parentwatch", finds: "order: ", doctor: outOfTurn},
		{name: "unfair, and the first to come leads last", strategy: "unfair", doctor: outOfTurn},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := sound()
			if c.doctor != nil {
				c.doctor(e)
			}
			if c.last == "" {
				c.last = "c<b"
			}
			if err := e.keepLedger(c.last); err != nil {
				e.wrong = append(e.wrong, err.Error())
			}
			r := judge(trial{strategy: c.strategy}, e)
			if c.finds == "" {
				assert.Empty(t, r.violations)
				return
			}
			assert.True(t, slices.ContainsFunc(r.violations, func(v string) bool { return strings.HasPrefix(v, c.finds) }), "%q", r.violations)
			for _, v := range r.violations {
				// If commits or claims are wrong, no linear order exists either.
				assert.True(t, strings.HasPrefix(v, c.finds) || strings.HasPrefix(v, "linear: "), v)
			}
		})
	}
}

// The counts are right.
func TestCounts(t *testing.T) {
	e := sound()
	e.event(6).Outcome = history.Unknown
	e.lines = append(e.lines, line{"1.1", 1, 990 * ms, 1900 * ms})
	e.fault("cut", 900*ms, 1000*ms)
	e.fault("cut", 1900*ms, 2000*ms)
	e.fault("SIGKILL", 1950*ms, 2000*ms)
	e.outages = []meeting{{outage, 1500 * ms, 1900 * ms}}
	require.NoError(t, e.keepLedger("c<b"))
	r := judge(trial{backend: "etcd", servers: 3, strategy: "unfair", seed: 7}, e)
	var b strings.Builder
	r.print(&b)
	assert.Equal(t, "| etcd | 3 | unfair | 7 | 3: 1 SIGKILL, 2 cut | 2 | 2 / 0 / 1 | 0 | 0, 0 | 3, 1 (paused for up to 910ms between Valid and the write) | 0 | 1, 400ms | 100ms of 5s |\n", b.String())
}

// Unfinished lines are left out, and no others.
func TestTorn(t *testing.T) {
	path := filepath.Join(t.TempDir(), logFile)
	require.NoError(t, os.WriteFile(path, []byte(`{"Process":"1.1","Token":1,"Asked":1,"Written":2}
{"Process":"1.1","Tok{"Process":"2.1","Token":2,"Asked":3,"Written":4}
{"Process":"2.1","Tok`), 0o644))
	lines := must.Get(loadLines(path))(t)
	assert.Equal(t, []line{{"1.1", 1, 1, 2}, {"2.1", 2, 3, 4}}, lines)
}

// The bound is as derived, in numbers.
func TestBound(t *testing.T) {
	const from, usual = int64(10 * time.Second), 2 * time.Second
	sound := failover{usual: usual}
	at := func(seconds float64) int64 { return from + int64(seconds*float64(time.Second)) }
	for _, c := range []struct {
		name       string
		kind       string
		begin, end float64 // seconds after from
		bound      time.Duration
	}{
		{"no fault", "", 0, 0, usual + recovery},
		{"the leader was killed", "SIGKILL", 0, 9, usual + recovery},
		{"the next was killed later", "SIGKILL", 1, 9, time.Second + usual + recovery},
		{"one was killed when the seat had to be taken", "SIGKILL", 5.1, 9, usual + recovery},
		{"one was killed long ago", "SIGKILL", -5, 9, usual + recovery},
		{"one is slow", "slow link", 1, 4, 4*time.Second + recovery},
		{"one server of three is away", "server restart", 1, 60, time.Second + usual + recovery},
		{"most are", "quorum lost", 0, 60, 60*time.Second + usual + recovery},
		{"the service was away", "outage", 1, 4, 4*time.Second + usual + recovery},
		{"a clock was stepped", "clock stepped", 1, 4, usual + recovery},
	} {
		e := &evidence{}
		e.fault(c.kind, at(c.begin), at(c.end))
		assert.Equal(t, c.bound, bound(from, at(100), e.faults, sound), c.name)
	}
	e := &evidence{}
	e.fault("SIGKILL", at(1), at(9))
	e.fault("half-open", at(2.5), at(4))
	assert.Equal(t, 3*time.Second+recovery, bound(from, at(2), e.faults, sound), "and it was over before the second")
	assert.Equal(t, 4500*time.Millisecond+recovery, bound(from, at(100), e.faults, sound), "one after the other")

	consul := failover{usual: usual, slow: 20 * time.Second, slowFor: 30 * time.Second}
	e = &evidence{}
	e.fault("SIGKILL", at(0), at(9))
	assert.Equal(t, usual+recovery, bound(from, at(100), e.faults, consul), "no fault of the service")
	e.fault("server wiped", at(-40), at(-31))
	assert.Equal(t, usual+recovery, bound(from, at(100), e.faults, consul), "long ago")
	e.fault("server wiped", at(-40), at(-29))
	assert.Equal(t, 20*time.Second+recovery, bound(from, at(100), e.faults, consul), "not so long ago")
}

// A command is found if it is alive after the command of a later term has begun, and only then.
func TestCheckLives(t *testing.T) {
	e := &evidence{history: &history.History{}, lines: []line{{"1.1", 2, 10, 10}, {"1.1", 2, 20, 20}, {"2.1", 5, 21, 21}, {"2.1", 5, 40, 40}}}
	r := judge(trial{strategy: "fair", elector: "elector"}, e)
	assert.Empty(t, r.violations)
	assert.Equal(t, 2, r.terms)
	e.lines = append(e.lines, line{"1.1", 2, 22, 22})
	r = judge(trial{strategy: "fair", elector: "elector"}, e)
	assert.Equal(t, []string{"overlap: a command of 1.1 with token 2 lived at 22, and one of 2.1 with token 5 had begun at 21"}, r.violations)
}
