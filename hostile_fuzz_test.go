package elector_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/layout"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/strategy"
)

const besieged = "/jobs/e"

// A siege is an election of two candidates and an observer in whose directory somebody else writes
// anything that the bytes of a script say.
type siege struct {
	t        *testing.T
	strategy strategy.Strategy
	svc      *memory.Service
	players  []*player
	hostile  *memory.Client
	session  *backend.Session // the hostile client's session, or nil
	script   []byte
	words    []string
	did      []string // for the report

	torn    bool              // the record was written while candidates were active
	numbers bool              // the epoch was written
	tokens  map[uint64]bool   // of all terms
	last    map[string]uint64 // token of the last term, by directory, and overall under ""
}

// A player is a candidate with the last term that it won.
type player struct {
	e        elector.Elector
	campaign chan outcome // nil: it does not campaign
	term     *elector.Term
	err      error // of its last campaign
}

type outcome struct {
	term *elector.Term
	err  error
}

// FuzzHostileWriter checks the effects of anything that somebody else leaves in an election's place, on
// its record, below it, on and below the candidates' entries, and under names that look like theirs:
// nothing crashes, there are never two valid leaders, tokens rise, and each campaign either continues or
// reports what is in its way.
//
// The writer avoids two things whose effects are known (docs/internals/proof.md): if a record is replaced while
// candidates are active, each of the two directories may have a leader, but no more; and it forges no
// leader's mark in the entry of a live session, because a successor believes that entry.
func FuzzHostileWriter(f *testing.F) {
	words := []string{
		`seat|lock-0000000001|x`, `{"v":1,"id":"nobody","leads":true}|…ünï|e--`, `{"v":1,"strategy":"fair","dir":"d"}|d|{"v":999,"strategy":"fair","dir":"d"}`,
		`controller|7|-1`, `controller_epoch|2147483647|{"version":1,"brokerid":1}`, "\x00\xff|a b|\n", `{"v":1,"strategy":"unfair","dir":"` + strings.Repeat("d", 120) + `"}|`,
	}
	for which := range strategies {
		for i, w := range words {
			script := []byte{7, 0, 0, 7, 1, 0}
			for j := range byte(40) {
				script = append(script, j*7+byte(i), j*5, j*3+byte(which))
			}
			f.Add(uint8(which), script, w)
			f.Add(uint8(which), script[6:], w)
		}
		for _, script := range []string{ // three bytes each: see step, key and value
			"\x07\x00\x00\x05\x01\x00\x07\x01\x00\x0a\x00\x00",             // somebody queues between the two, and leaves
			"\x05\x01\x00\x07\x00\x00\x07\x01\x00\x0a\x00\x00\x09\x00\x00", // or before them
			"\x07\x00\x00\x09\x00\x00\x00\x09\x02\x07\x01\x00",             // a persistent seat
			"\x07\x00\x00\x09\x00\x00\x00\x0c\x0c\x07\x01\x00",             // a persistent controller
			"\x07\x00\x00\x09\x00\x00\x00\x0d\x0e\x07\x01\x00",             // the highest epoch
			"\x07\x00\x00\x07\x01\x00\x04\x06\x00",                         // the leader's entry is deleted
			"\x07\x00\x00\x07\x01\x00\x04\x16\x00\x09\x00\x00",             // the other's entry is deleted
			"\x07\x00\x00\x07\x01\x00\x04\x01\x00\x00\x01\x02",             // the directory is deleted, and made again
			"\x07\x00\x00\x09\x00\x00\x04\x01\x00\x07\x01\x00",             // the directory is deleted, and the record stays
			"\x00\x0e\x00\x06\x00\x00\x07\x00\x00\x0a\x00\x00",             // the place is an ephemeral entry
			"\x07\x00\x00\x07\x01\x00\x00\x06\x05\x09\x00\x00",             // the leader's entry says something else
		} {
			f.Add(uint8(which), []byte(script), "x|y")
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, script []byte, words string) {
		if len(script) > 3*60 {
			return // longer scripts find nothing new
		}
		synctest.Test(t, func(t *testing.T) {
			s := &siege{
				t: t, strategy: strategies[int(which)%len(strategies)], svc: memory.New(memory.Options{}),
				script: script, words: strings.Split(words, "|"),
				tokens: make(map[uint64]bool), last: make(map[string]uint64),
			}
			s.hostile = s.svc.Client("hostile")
			s.run()
		})
	})
}

func (s *siege) run() {
	defer func() {
		if s.t.Failed() {
			s.t.Logf("%s:\n%s\nthere is now:\n%s", s.strategy.Name(), strings.Join(s.did, "\n"), s.svc.Dump())
		}
	}()
	for i := range 2 {
		s.players = append(s.players, &player{e: s.elector(fmt.Sprint(i + 1))})
	}
	onlooker := s.elector("3")
	looked := make(chan error)
	go func() {
		var last error
		for _, last = range onlooker.Observe(context.Background()) {
		}
		looked <- last
	}()
	for len(s.script) >= 3 && !s.t.Failed() {
		s.step(s.script[0], s.script[1], s.script[2])
		s.script = s.script[3:]
		s.check()
		s.look(onlooker)
	}
	s.goesOn("the hostile one has left")
	s.operator()
	for _, p := range s.players {
		s.close(p)
	}
	assert.NoError(s.t, onlooker.Close(context.Background()))
	s.clear("Observe", <-looked)
	now := s.svc.Stats()
	assert.True(s.t, now.Sessions == 0 && now.Watches == 0, "%d sessions and %d watches are left", now.Sessions, now.Watches)
}

func (s *siege) elector(id string) elector.Elector {
	strategy := s.strategy
	if strategy.Name() == "kafka" {
		strategy = brokers // each candidate by its own ID
	}
	return must.Get(elector.New(elector.Config{Backend: s.svc.Client(id), Strategy: strategy, Election: besieged, ID: id, Value: []byte(id)}))(s.t)
}

// goesOn ends the hostile session, and makes all who do not campaign campaign: then somebody leads, or
// everybody knows why not.
func (s *siege) goesOn(when string) {
	s.expire()
	for i, p := range s.players {
		if p.campaign == nil && (p.term == nil || !p.term.Valid()) {
			s.enter(i)
		}
	}
	time.Sleep(time.Minute) // longer than any backoff
	s.check()
	leads, campaigns := 0, 0
	for _, p := range s.players {
		if p.term != nil && p.term.Valid() {
			leads++
		}
		if p.campaign != nil {
			campaigns++
		}
	}
	assert.True(s.t, leads > 0 || campaigns == 0, "%s, nobody leads, and %d campaigns wait for what never comes", when, campaigns)
}

// operator clears the place, as for a broken election: then the election continues.
func (s *siege) operator() {
	s.note("operator deletes " + besieged)
	s.svc.Delete(besieged)
	s.numbers = true // epochs start again
	s.check()
	s.torn = false // every leader, in any directory, has had a notice
	s.goesOn("the place was cleared")
	if !s.t.Failed() {
		assert.Len(s.t, s.leaders(), 1, "in a place that was cleared: campaigns ended with %v and %v", s.players[0].err, s.players[1].err)
	}
}

// enter makes a candidate campaign.
func (s *siege) enter(i int) {
	p := s.players[i]
	s.note(fmt.Sprintf("candidate %d campaigns", i+1))
	p.err = nil
	done := make(chan outcome, 1)
	p.campaign = done
	go func() {
		term, err := p.e.Campaign(context.Background())
		done <- outcome{term, err}
	}()
}

// check waits until everything is quiet, and checks what must always hold.
func (s *siege) check() {
	synctest.Wait()
	for i, p := range s.players {
		select {
		case o := <-p.campaign:
			p.campaign, p.term, p.err = nil, o.term, o.err
			s.note(fmt.Sprintf("candidate %d: %v, %v", i+1, o.term != nil, o.err))
			if o.err != nil {
				s.clear("Campaign", o.err)
				continue
			}
			s.rises(o.term)
		default:
		}
	}
	seats := s.leaders()
	assert.False(s.t, len(seats) == 2 && (!s.torn || backend.Parent(seats[0]) == backend.Parent(seats[1])), "two leaders, by %s", seats)
}

// leaders returns the seats of the candidates that lead.
func (s *siege) leaders() (seats []string) {
	for _, p := range s.players {
		if p.term != nil && p.term.Valid() {
			seats = append(seats, seatOf(p.term))
		}
	}
	return seats
}

func seatOf(t *elector.Term) string {
	conditions := t.Guard().Conditions
	return conditions[len(conditions)-1].Entry.Key
}

// rises checks that a term's token is new, and higher than all earlier ones: if the record was written to,
// higher than those in its directory.
func (s *siege) rises(t *elector.Term) {
	token, dir := t.Token(), backend.Parent(seatOf(t))
	assert.False(s.t, s.tokens[token] && !s.numbers, "token %d is used twice", token)
	if before := s.last[dir]; token <= before && !s.numbers {
		s.t.Errorf("token %d comes after %d in %s", token, before, dir)
	}
	if before := s.last[""]; token <= before && !s.torn && s.strategy.Name() != "kafka" {
		s.t.Errorf("token %d comes after %d", token, before)
	}
	s.tokens[token], s.last[dir], s.last[""] = true, token, max(token, s.last[""])
}

// look reads the leader and the candidates, which does not block.
func (s *siege) look(e elector.Elector) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if l, err := e.Leader(ctx); err != nil && !errors.Is(err, elector.ErrNoLeader) {
		s.clear("Leader", err)
	} else if err == nil && l.Vacant() {
		s.t.Error("Leader says that nobody leads, without ErrNoLeader")
	}
	if _, err := e.Candidates(ctx); err != nil {
		s.clear("Candidates", err)
	}
}

// clear checks that an error says what is in the way.
func (s *siege) clear(what string, err error) {
	for _, known := range []error{elector.ErrStrategyMismatch, elector.ErrOccupied, backend.ErrBadKey, elector.ErrClosed} {
		if errors.Is(err, known) {
			assert.Empty(s.t, unreadable(err), "%s: %.300q", what, err)
			return
		}
	}
	s.t.Errorf("%s: %v, which does not say what is in the way", what, err)
}

func (s *siege) close(p *player) {
	assert.NoError(s.t, p.e.Close(context.Background()))
	if p.campaign != nil {
		if o := <-p.campaign; o.err == nil && o.term.Valid() {
			s.t.Error("a campaign is won after Close")
		}
	}
	assert.False(s.t, p.term != nil && p.term.Valid(), "a term outlives Close")
}

func (s *siege) note(what string) { s.did = append(s.did, what) }

// busy reports whether a candidate leads or campaigns.
func (s *siege) busy() bool {
	for _, p := range s.players {
		if p.campaign != nil || p.term != nil && p.term.Valid() {
			return true
		}
	}
	return false
}

// unmarked returns a value without a leader's mark.
func unmarked(value []byte) []byte {
	if layout.DecodeCandidate(value).Leads {
		return bytes.ReplaceAll(value, []byte("true"), []byte("null"))
	}
	return value
}
