package history

import (
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/elector-go/elector"
)

// A Recorder takes events. It is safe for concurrent use.
type Recorder struct {
	*log
	election string
}

// log is what the Recorders of all elections share.
type log struct {
	clock   Clock
	process string

	mu      sync.Mutex
	next    uint64    // the ID of the next event
	events  []Event   // in memory: the event with ID n is at n-1
	out     io.Writer // the file; nil: in memory
	err     error     // the first error of out
	every   time.Duration
	holding []*watch // terms that are not over
}

// NewRecorder returns a Recorder that keeps its events in memory. process names the process in a history
// with several; it may be "".
func NewRecorder(clock Clock, process string) *Recorder {
	return &Recorder{log: &log{clock: clock, process: process, every: 20 * time.Millisecond}}
}

// NewWriter returns a Recorder that writes each event to w at once, as a line of JSON and in one Write,
// and keeps nothing, so that the record outlives the process. Give it an os.File that nobody else writes
// to. Err returns an error if writing failed.
func NewWriter(w io.Writer, clock Clock, process string) *Recorder {
	r := NewRecorder(clock, process)
	r.out = w
	r.write(header{Format: format, Clock: clock.Name, Origin: clock.Origin, Process: process})
	return r
}

// In returns a Recorder of one election, which records to the same place.
func (r *Recorder) In(election string) *Recorder { return &Recorder{r.log, election} }

// LookEvery sets the interval between readings of each recorded term. The default is 20 ms; with 0 there
// are no regular readings. A reading is also taken when a term begins or ends, and by Look, Term.Valid
// and History.
func (r *Recorder) LookEvery(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.every = d
}

// Now reads the clock.
func (r *Recorder) Now() int64 { return r.clock.Now() }

// Err returns the first error of writing.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Start records that something begins now: a call, or a fault. Pass its result to Finish. An event that
// is never finished counts as unknown.
func (r *Recorder) Start(e Event) Event {
	e.Call, e.Return, e.Outcome = r.Now(), 0, Unknown
	return r.Add(e)
}

// Finish records that what Start returned has ended now. With a nil err it was done, with
// elector.ErrIndeterminate the outcome is unknown, and with any other error it was not done.
func (r *Recorder) Finish(e Event, err error) Event {
	e.Return, e.Outcome = r.Now(), OK
	switch {
	case err == nil:
	case errors.Is(err, elector.ErrIndeterminate):
		e.Outcome = Unknown
	default:
		e.Outcome = Refused
	}
	if err != nil {
		e.Text = err.Error()
	}
	return r.Add(e)
}

// During records that something of a kind (Fault, Force, Renumber) happens from now until end is called.
func (r *Recorder) During(kind Kind, what string) (end func()) {
	e := r.Start(Event{Kind: kind, Text: what})
	return func() { r.Finish(e, nil) }
}

// Note records a line for people.
func (r *Recorder) Note(text string) {
	now := r.Now()
	r.Add(Event{Kind: Note, Call: now, Return: now, Text: text})
}

// Add records an event with the instants that the caller has set, and returns it with its ID. If it has
// an ID, it replaces the event with that ID.
func (r *Recorder) Add(e Event) Event {
	if e.Process == "" {
		e.Process = r.process
	}
	if e.Election == "" {
		e.Election = r.election
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.ID == 0 || e.ID > r.next {
		r.next++
		e.ID = r.next
		if r.out == nil {
			r.events = append(r.events, e)
		}
	} else if r.out == nil {
		r.events[e.ID-1] = e
	}
	if r.out != nil {
		r.write(e)
	}
	return e
}

// History takes another reading of all terms and returns what was recorded so far. It is not for a
// Recorder made by NewWriter: load the file.
func (r *Recorder) History() *History {
	r.Look()
	r.mu.Lock()
	defer r.mu.Unlock()
	h := &History{Clock: r.clock.Name, Origin: r.clock.Origin, Events: slices.Clone(r.events), Until: r.Now()}
	byCall(h.Events)
	return h
}
