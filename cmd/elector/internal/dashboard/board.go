// Package dashboard serves a live page about the elections of a service: who leads, who stands, and what has
// happened since it began.
package dashboard

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/elector-go/elector/inspect"
	"github.com/elector-go/elector/internal/program"
	"github.com/elector-go/elector/strategy"
	"github.com/elector-go/elector/strategy/catalog"
)

const (
	// every is how long the board rests between two looks for elections. After one that took long it rests
	// for rests times as long, up to longestRest.
	every       = 10 * time.Second
	rests       = 20
	longestRest = time.Minute
	// The most elections, changes of each, and candidates of each that are kept and shown.
	mostElections  = 500
	mostSpans      = 200
	mostCandidates = 200
)

// Kinds of a Span.
const (
	Led     = "led"     // somebody led
	Vacant  = "vacant"  // nobody led
	Unknown = "unknown" // the link is down, or the strategy does not tell
)

// A Span is a time in which nothing changed.
type Span struct {
	Kind  string    `json:"kind"`
	ID    string    `json:"id,omitempty"`
	Token string    `json:"token,omitempty"` // in decimal: JavaScript's numbers are too short
	From  time.Time `json:"from"`
	To    time.Time `json:"to,omitzero"` // zero: it continues
}

// A Candidate is one row of an election.
type Candidate struct {
	Key        string `json:"key"` // distinguishes it from others with the same ID
	ID         string `json:"id"`
	Odd        bool   `json:"odd,omitempty"` // ID is quoted: the page cannot use it in an order
	Value      string `json:"value,omitempty"`
	Rank       string `json:"rank,omitempty"`
	Session    string `json:"session"`
	Leads      bool   `json:"leads,omitempty"`
	Designated bool   `json:"designated,omitempty"`
}

// An Election is what the page shows of one election.
type Election struct {
	Path       string      `json:"path"`
	Strategy   string      `json:"strategy"`
	Leader     *Span       `json:"leader,omitempty"` // From is when it was elected, or first seen: see Exact
	Exact      bool        `json:"exact,omitempty"`  // the leader itself says when it was elected
	Value      string      `json:"value,omitempty"`  // the leader's
	Asked      string      `json:"asked,omitempty"`  // the request that the leader should go
	Designated string      `json:"designated,omitempty"`
	Candidates []Candidate `json:"candidates"`
	More       int         `json:"more,omitempty"`       // how many stand besides Candidates
	Hidden     bool        `json:"hidden,omitempty"`     // those that wait leave no trace
	Transfers  bool        `json:"transfers,omitempty"`  // the strategy can make a chosen candidate lead
	Designates bool        `json:"designates,omitempty"` // the strategy heeds a designation
	Trouble    string      `json:"trouble,omitempty"`
	Spans      []Span      `json:"spans"`
}

// A Board follows the elections at a path and below.
type Board struct {
	in    *inspect.Inspector
	path  string
	began time.Time

	mu      sync.Mutex
	changed chan struct{} // closed with each change
	all     map[string]*followed
	trouble string // why there may be other elections than these
	version uint64
}

// followed is an election, and the watch that follows it.
type followed struct {
	Election
	version uint64          // of the board, at its last change
	ctx     context.Context // of the watch, which stop ends
	stop    context.CancelFunc
	watched bool
	gone    bool // its watch says that there is no such election
}

func newBoard(in *inspect.Inspector, path string) *Board {
	return &Board{in: in, path: path, began: time.Now(), changed: make(chan struct{}), all: make(map[string]*followed), trouble: "the service has not answered yet"}
}

// run follows the elections until ctx ends.
func (b *Board) run(ctx context.Context) {
	var watches sync.WaitGroup
	defer watches.Wait()
	for {
		began := time.Now()
		l, err := b.in.List(ctx, b.path, inspect.ListOptions{})
		if ctx.Err() != nil {
			return
		}
		for _, f := range b.listed(ctx, l, err) {
			watches.Go(func() { b.follow(f) })
		}
		rest := every
		if err == nil { // else it took long because the service was away
			rest = max(rest, min(rests*time.Since(began), longestRest))
		}
		if program.Sleep(ctx, rest) != nil {
			return
		}
	}
}

// listed stores which elections exist, and returns those that nobody follows yet.
func (b *Board) listed(ctx context.Context, l inspect.Listing, err error) (begin []*followed) {
	b.mu.Lock()
	defer b.mu.Unlock()
	trouble := ""
	switch {
	case err != nil:
		trouble = err.Error()
		l.Elections = nil
	case len(l.Missed) > 0:
		trouble = fmt.Sprintf("not all below %s was looked at: %s: %s", l.Under, l.Missed[0].Key, l.Missed[0].Why)
	}
	left := 0
	for _, v := range l.Elections {
		f := b.all[v.Election]
		if f == nil {
			if len(b.all) == mostElections {
				left++
				continue
			}
			f = &followed{Election: Election{Path: v.Election, Strategy: readable(v.Strategy), Trouble: "not looked at yet", Candidates: []Candidate{}, Spans: []Span{}}}
			b.all[v.Election] = f
			b.change(f)
		}
		if !f.watched {
			f.ctx, f.stop = context.WithCancel(ctx)
			f.watched = true
			begin = append(begin, f)
		}
	}
	if trouble == "" { // else an election may be where nobody looked
		for path, f := range b.all {
			if (f.gone || !f.watched) && !slices.ContainsFunc(l.Elections, func(v inspect.View) bool { return v.Election == path }) {
				f.stop()
				delete(b.all, path)
				b.change(nil)
			}
		}
		if left > 0 {
			trouble = fmt.Sprintf("%d of %d elections are not shown: give a longer path", left, len(l.Elections))
		}
	}
	if trouble != b.trouble {
		b.trouble = trouble
		b.change(nil)
	}
	return begin
}

// follow follows one election. If a watch ends, as when the service refuses the right to look, it begins
// again with the next list that has the election.
func (b *Board) follow(f *followed) {
	ctx := f.ctx // for a watch to come there is another
	for v, err := range b.in.Watch(ctx, f.Path, inspect.WatchOptions{Candidates: true}) {
		b.mu.Lock()
		switch {
		case ctx.Err() != nil: // it is on the board no more
		case err != nil:
			f.watched = false
			f.stop()
			f.see(inspect.View{Trouble: &inspect.Trouble{Since: time.Now(), Why: err.Error()}})
			b.change(f)
		default:
			f.see(v)
			b.change(f)
		}
		b.mu.Unlock()
	}
}

// change notifies all that wait. f is what has changed, or nil. The caller holds mu.
func (b *Board) change(f *followed) {
	b.version++
	if f != nil {
		f.version = b.version
	}
	close(b.changed)
	b.changed = make(chan struct{})
}

// see stores what a watch has seen.
func (f *followed) see(v inspect.View) {
	f.gone = v.Strategy == "" && v.Trouble == nil
	f.Trouble = ""
	if v.Trouble != nil {
		f.Trouble = v.Trouble.Why
		f.span(Span{Kind: Unknown, From: v.Trouble.Since})
		return // the last known state stays
	}
	f.Strategy, f.Hidden, f.Asked, f.Designated, f.Value = readable(v.Strategy), v.Hidden, "", "", ""
	item, _ := catalog.Named(v.Strategy)
	_, f.Transfers = item.Strategy.(strategy.Transferrer)
	_, f.Designates = item.Strategy.(strategy.Designator)
	f.Candidates, f.More = []Candidate{}, max(0, len(v.Candidates)-mostCandidates)
	for _, c := range v.Candidates[:len(v.Candidates)-f.More] {
		f.Candidates = append(f.Candidates, Candidate{
			Key: c.Key + " " + strconv.FormatUint(c.Rev, 10), ID: readable(c.ID), Odd: readable(c.ID) != c.ID, Value: readable(string(c.Value)),
			Rank: readable(strings.Trim(strings.ReplaceAll(fmt.Sprint(c.Rank), " ", ", "), "[]")), Session: c.Session, Leads: c.Leads, Designated: c.Designated,
		})
	}
	if v.Designated != nil {
		f.Designated = readable(v.Designated.ID)
	}
	l := v.Leader
	if l == nil {
		kind := Vacant
		if v.Unknown {
			kind = Unknown
		}
		f.Leader, f.Exact = nil, false
		f.span(Span{Kind: kind, From: v.At})
		return
	}
	if l.Asked != nil {
		f.Asked = readable(l.Asked.String())
	}
	f.Value = readable(string(l.Value))
	s := Span{Kind: Led, ID: readable(l.ID), Token: tokenOf(l), From: v.At}
	if f.Leader != nil && f.Leader.Token == s.Token {
		s.From = f.Leader.From
	}
	if f.Exact = !l.Since.IsZero(); f.Exact {
		s.From = l.Since
	}
	f.Leader = new(s)
	s.From = v.At
	f.span(s)
}

// span begins a span, unless it continues the last one.
func (f *followed) span(s Span) {
	if n := len(f.Spans); n > 0 {
		last := &f.Spans[n-1]
		if last.Kind == s.Kind && last.ID == s.ID && last.Token == s.Token {
			return
		}
		if s.From.Before(last.From) {
			s.From = last.From
		}
		last.To = s.From
	}
	f.Spans = append(f.Spans, s)
	f.Spans = slices.Delete(f.Spans, 0, max(0, len(f.Spans)-mostSpans))
}

// readable returns another's text, quoted if it has invisible characters.
func readable(s string) string {
	const most = 1000
	if len(s) > most {
		s = s[:most] + "…"
	}
	if utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return s
	}
	return strconv.Quote(s)
}

// A State is what the page receives: all, or the changes since a version.
type State struct {
	At        time.Time  `json:"at"` // by the clock of this process, as all times are
	Began     time.Time  `json:"began"`
	Trouble   string     `json:"trouble"`
	Paths     []string   `json:"paths"` // of all elections, in order
	Elections []Election `json:"elections"`
}

// since returns the changes since a version, the current version, and a channel that is closed with the next
// change.
func (b *Board) since(version uint64) (s State, now uint64, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s = State{At: time.Now(), Began: b.began, Trouble: b.trouble, Paths: slices.Sorted(maps.Keys(b.all)), Elections: []Election{}}
	for _, path := range s.Paths {
		if f := b.all[path]; f.version > version {
			e := f.Election
			e.Spans = slices.Clone(e.Spans) // the last one's end is still to come
			s.Elections = append(s.Elections, e)
		}
	}
	return s, b.version, b.changed
}

// shows reports whether an election is on the board.
func (b *Board) shows(path string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all[path] != nil
}

// tokenOf returns the leader's token, or "" if nobody leads.
func tokenOf(l *inspect.Leader) string {
	if l == nil {
		return ""
	}
	return strconv.FormatUint(l.Token, 10)
}
