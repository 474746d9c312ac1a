// Package report is the result of a comparison of strategies, as kept in JSON, printed as a table and drawn
// as a page.
package report

import (
	"fmt"
	"time"

	"github.com/elector-go/elector/internal/crowd"
)

// Schema is the version of the form. It rises when a field changes its meaning or is removed; new fields do
// not change it.
const Schema = 1

// A Report is one comparison. Times are in nanoseconds in JSON, as time.Duration is.
type Report struct {
	Schema  int       `json:"schema"`
	Made    time.Time `json:"made"`
	Machine Machine   `json:"machine"`
	Method  Method    `json:"method"`
	// Runs are ordered by service, then strategy, then N.
	Runs []Run `json:"runs"`
	// Growth has how the runs' figures grow with N.
	Growth []Growth `json:"growth"`
}

// Machine is where the candidates ran.
type Machine struct {
	OS   string `json:"os"`
	Arch string `json:"arch"`
	CPUs int    `json:"cpus"`
	Go   string `json:"go"`
}

// Method is the settings.
type Method struct {
	Command string        `json:"command"` // the command line that produces the report again
	Seed    uint64        `json:"seed"`
	Changes int           `json:"changes"` // of leader, in each run
	Crashes int           `json:"crashes"` // how many of them by crash
	Churn   float64       `json:"churn"`   // candidates that leave and join, per leader change
	Delay   time.Duration `json:"delay"`   // simulated round trip to an embedded service; else 0
	TTL     time.Duration `json:"ttl"`     // session timeout
}

// A Run is one strategy with N candidates on one service. What it could not measure is zero, and omitted from
// JSON.
type Run struct {
	Service   string `json:"service"` // a URL without secrets
	Strategy  string `json:"strategy"`
	N         int    `json:"n"`
	Truncated string `json:"truncated,omitempty"` // why the run ended early; "" if it did not

	// Leaderless is the time from the end of a term's hold on the seat until the next Campaign returns: for a
	// resignation, from the call of Resign; for a crash, from the instant the service dropped the crashed
	// leader's entry.
	Resigned Leaderless `json:"resigned,omitzero"`
	Crashed  Leaderless `json:"crashed,omitzero"`
	// Unnoticed is how long the service took to drop a crashed leader's entry, which no strategy can
	// influence.
	Unnoticed Quantiles `json:"unnoticed,omitzero"`

	// PerChange is the mean cost of one leader change, over all candidates, including the leader's return,
	// until all is quiet.
	PerChange Cost `json:"perChange,omitzero"`
	// PerJoin is the mean cost of one candidate's join, over all candidates.
	PerJoin Cost `json:"perJoin,omitzero"`
	// Server is the service's own counts per resignation, by its own names for the figures. Empty if it
	// counts nothing.
	Server map[string]float64 `json:"server,omitempty"`
	// ServerNote says why there are no such figures.
	ServerNote string `json:"serverNote,omitempty"`

	Fairness Fairness  `json:"fairness,omitzero"`
	Waits    Histogram `json:"waits,omitzero"` // from a candidate's arrival to its election
	// Sample is one leader change in detail.
	Sample *Timeline `json:"sample,omitempty"`
}

// Changes returns how many leader changes were measured.
func (r Run) Changes() int { return r.Resigned.N + r.Crashed.N }

// Empty reports whether the run ended before it had measured a leader change.
func (r Run) Empty() bool { return r.Truncated != "" && r.Changes() == 0 }

// Interrupted is the reason of a run that the user has ended.
const Interrupted = "interrupted"

// Ended describes the end of a run that ended early, with this many changes in its settings.
func (r Run) Ended(changes int) string {
	if r.Empty() && r.Truncated != Interrupted {
		return "failed: " + r.Truncated
	}
	return fmt.Sprintf("ended after %d of %d leader changes: %s", r.Changes(), changes, r.Truncated)
}

// Leaderless is times without a leader.
type Leaderless struct {
	Quantiles
	All []time.Duration `json:"all"` // in the order in which they happened
}

// Quantiles of durations; all zero when N is.
type Quantiles = crowd.Quantiles

// Cost is what candidates asked of the service, as in meter.Counts.
type Cost struct {
	WakeUps    float64 `json:"wakeUps"`
	Operations float64 `json:"operations"`
	Writes     float64 `json:"writes"`
	Refused    float64 `json:"refused"` // writes in vain
	Watches    float64 `json:"watches"` // set
	Bytes      float64 `json:"bytes"`   // keys and values, sent and received
}

// Fairness says how evenly and in what order candidates were elected.
type Fairness struct {
	// Wins per candidate, in the order of their first arrival.
	Wins []int `json:"wins"`
	// Jain is Jain's index over the wins of the candidates that were present all the time: 1 when all won
	// equally often, 1/N when one won all.
	Jain float64 `json:"jain"`
	// LongestWait is the greatest number of leader changes between a candidate's arrival and its election, or
	// the end of the run.
	LongestWait int `json:"longestWait"`
	// Inversions is the share of pairs of elections, of one run, in which the later arrival was elected
	// first: 0 in order of arrival, about 0.5 at random.
	Inversions float64 `json:"inversions"`
}

// Histogram counts durations. Count[i] counts those below Bounds[i] and not below Bounds[i-1]; the last Count
// has no upper bound, so there is one more of them.
type Histogram struct {
	Quantiles
	Bounds []time.Duration `json:"bounds"`
	Count  []int           `json:"count"`
}

// A Timeline is one leader change: everything that candidates did or heard from just before it until all was
// quiet.
type Timeline struct {
	Crash bool `json:"crash"`
	// Present are the numbers of the present candidates, rising. If candidates come and go, they have gaps.
	Present []int   `json:"present,omitempty"`
	Events  []Event `json:"events"`
}

// An Event is one event of one candidate. Candidates are numbered in the order of arrival, 0 first.
type Event struct {
	At        time.Duration `json:"at"` // since the change began
	Took      time.Duration `json:"took,omitempty"`
	Candidate int           `json:"candidate"`
	Kind      EventKind     `json:"kind"`
}

// EventKind distinguishes events.
type EventKind string

const (
	WokenUp EventKind = "wake-up" // was told of a change
	Read    EventKind = "read"
	Wrote   EventKind = "write"
	Refused EventKind = "refused" // wrote in vain
	Ended   EventKind = "ended"   // its term ended
	Elected EventKind = "elected"
)

// Growth is a straight line through a figure of one strategy on one service, against N.
type Growth struct {
	Service  string `json:"service"`
	Strategy string `json:"strategy"`
	Figure   string `json:"figure"` // wakeUps, operations, bytes, leaderless
	// Slope is what each further candidate adds (nanoseconds for leaderless).
	Slope float64 `json:"slope"`
	// Exponent is the slope of the line through the logarithms: 0 is constant, 1 linear, 2 quadratic.
	Exponent float64 `json:"exponent"`
	// R2 is how well the straight line through the figures fits: 1 is exact.
	R2 float64 `json:"r2"`
	// Flat is whether the growth cannot be told from noise: from the fewest candidates to the most a count
	// changes by less than 5 %, or the times are not Apart.
	Flat bool `json:"flat,omitempty"`
}
