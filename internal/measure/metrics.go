// Package measure defines the metrics of an elector and their values. The modules metrics/prometheus and
// metrics/otel expose them, each by the conventions of its system.
//
// No label has a value from outside: all possible values are listed here.
package measure

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
)

// A Kind says how a metric behaves.
type Kind int

const (
	Counter   Kind = iota + 1 // counts events
	Histogram                 // of seconds
	Gauge                     // a reading whose sum over processes means nothing
	State                     // 1 if it holds and 0 if not: the sum over processes counts them
)

// A Metric is one of an elector's metrics.
type Metric struct {
	// Name is the OpenTelemetry name, such as "elector.commit.duration".
	Name string
	// Unit is a UCUM unit: "s", or what is counted in braces.
	Unit string
	Help string
	Kind Kind
	// Label is the name of its only label, or "". Values are all its possible values.
	Label  string
	Values []string
	// Buckets are the upper bounds of a histogram's buckets, in seconds.
	Buckets []float64
}

// PrometheusName returns the metric's name by the conventions of Prometheus, as OpenTelemetry's rules
// translate it.
func (m *Metric) PrometheusName() string {
	name := strings.ReplaceAll(m.Name, ".", "_")
	if m.Unit == "s" {
		name += "_seconds"
	}
	if m.Kind == Counter {
		name += "_total"
	}
	return name
}

// All is the list of all metrics.
var All []*Metric

// define adds a metric to All.
func define(m Metric) *Metric {
	All = append(All, &m)
	return &m
}

// Metrics that are read on demand.
var (
	IsLeader = define(Metric{
		Name: "elector.is_leader", Unit: "{elector}", Kind: State,
		Help: "1 while this process leads by its own clock, else 0.",
	})
	RoleState = define(Metric{
		Name: "elector.role", Unit: "{elector}", Kind: State, Label: "role", Values: roles,
		Help: "1 for the role that the elector has, and 0 for the others.",
	})
	SessionState = define(Metric{
		Name: "elector.session.state", Unit: "{elector}", Kind: State, Label: "state", Values: states,
		Help: "1 for the state of the session with the service, and 0 for the others; none is 1 before the first session.",
	})
	TrustRemaining = define(Metric{
		Name: "elector.session.trust_remaining", Unit: "s", Kind: Gauge,
		Help: "How long the session's trust window, and with it a term, lasts if the service is silent from now on.",
	})
	LeaderAge = define(Metric{
		Name: "elector.leader.knowledge_age", Unit: "s", Kind: Gauge,
		Help: "Age of what this process knows of who leads; absent if it knows nothing.",
	})
	Leaderless = define(Metric{
		Name: "elector.leaderless", Unit: "s", Kind: Gauge,
		Help: "Time since this process last knew that somebody led; 0 while it leads itself.",
	})
	Place = define(Metric{
		Name: "elector.place", Unit: "{candidate}", Kind: Gauge,
		Help: "Place in line, 1 for the leader; absent where it is not known.",
	})
	TermOverrun = define(Metric{
		Name: "elector.term.overrun", Unit: "s", Kind: Gauge,
		Help: "How long the work of a term has gone on after the term's end; 0 if none does.",
	})
)

// Metrics that are counted as events happen.
var (
	Attempts = define(Metric{
		Name: "elector.campaign.attempts", Unit: "{attempt}", Kind: Counter,
		Help: "Tries of campaigns to enter the election and win it.",
	})
	AttemptFailures = define(Metric{
		Name: "elector.campaign.failures", Unit: "{attempt}", Kind: Counter, Label: "reason", Values: reasons.values(),
		Help: "Tries of campaigns that have failed, by reason.",
	})
	CampaignDuration = define(Metric{
		Name: "elector.campaign.duration", Unit: "s", Kind: Histogram, Label: "outcome", Values: campaignOutcomes,
		Help:    "Time from the begin of a campaign to its outcome, the wait for others included.",
		Buckets: []float64{.01, .1, .5, 1, 5, 15, 60, 300, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600},
	})
	Terms = define(Metric{
		Name: "elector.terms", Unit: "{term}", Kind: Counter,
		Help: "Terms that have begun.",
	})
	TermEnds = define(Metric{
		Name: "elector.term.ends", Unit: "{term}", Kind: Counter, Label: "cause", Values: causes.values(),
		Help: "Terms that have ended, by cause.",
	})
	CommitDuration = define(Metric{
		Name: "elector.commit.duration", Unit: "s", Kind: Histogram, Label: "outcome", Values: commitOutcomes.values(),
		Help:    "Duration of the leader's commits, by outcome.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
	})
	Retries = define(Metric{
		Name: "elector.retries", Unit: "{retry}", Kind: Counter, Label: "work", Values: works,
		Help: "What has failed for now and is tried again; work \"lead\" is the application's own function.",
	})
	Sessions = define(Metric{
		Name: "elector.sessions", Unit: "{session}", Kind: Counter,
		Help: "Sessions that were opened with the service.",
	})
	Suspensions = define(Metric{
		Name: "elector.session.suspensions", Unit: "{suspension}", Kind: Counter,
		Help: "Times that a session was out of touch with the service.",
	})
	SessionLosses = define(Metric{
		Name: "elector.session.losses", Unit: "{session}", Kind: Counter,
		Help: "Sessions that were lost, without those that the process has closed.",
	})
	Requests = define(Metric{
		Name: "elector.step_down.requests", Unit: "{request}", Kind: Counter,
		Help: "Requests to this process to go, in a term that it led.",
	})
	StandAsides = define(Metric{
		Name: "elector.stand_asides", Unit: "{time}", Kind: Counter, Label: "reason", Values: asides.values(),
		Help: "Times that this process stood aside so that others may lead before it.",
	})
	Strangers = define(Metric{
		Name: "elector.strangers", Unit: "{time}", Kind: Counter,
		Help: "Times that somebody else's candidates were found at the election's path: there may be a second leader.",
	})
)

// names returns the String of all values from first to last.
func names[T interface {
	~int
	String() string
}](first, last T) (all []string) {
	for v := first; v <= last; v++ {
		all = append(all, v.String())
	}
	return all
}

var (
	roles  = names(elector.RoleIdle, elector.RoleClosed)
	states = names(backend.Live, backend.Lost)
	works  = names(elector.WorkCampaign, elector.WorkLead)
)

// A class is an error's label. The classes of a classification are tried in order: if an error belongs to
// several, the first one counts.
type class struct {
	label string
	errs  []error
}

type classification []class

// of returns the label of an error, or "other" if no class matches.
func (c classification) of(err error) string {
	for _, one := range c {
		if slices.ContainsFunc(one.errs, func(target error) bool { return errors.Is(err, target) }) {
			return one.label
		}
	}
	return other
}

func (c classification) values() (all []string) {
	for _, one := range c {
		all = append(all, one.label)
	}
	return append(all, other)
}

const other = "other"

var cancelled = class{"cancelled", []error{context.Canceled, context.DeadlineExceeded, elector.ErrClosed}}

// causes are why terms end. A leader that was asked to resign has resigned, too.
var causes = classification{
	{"asked", []error{elector.ErrAsked}},
	{"closed", []error{elector.ErrClosed}},
	{"resigned", []error{elector.ErrResigned}},
	{"suspended", []error{elector.ErrSuspended}},
	{"session_lost", []error{elector.ErrSessionLost}},
	{"deposed", []error{elector.ErrDeposed}},
}

// Cause returns the label of the error that has ended a term.
func Cause(err error) string { return causes.of(err) }

// reasons are why an attempt to campaign fails.
var reasons = classification{
	{"unfit", []error{elector.ErrUnfit}},
	{"occupied", []error{elector.ErrOccupied}},
	{"strategy_mismatch", []error{elector.ErrStrategyMismatch}},
	{"denied", []error{backend.ErrDenied}},
	{"directory_used_up", []error{backend.ErrUsedUp}},
	{"directory_gone", []error{backend.ErrNoParent}},
	{"session_lost", []error{elector.ErrSessionLost}},
	{"unavailable", []error{backend.ErrUnavailable}},
	{"indeterminate", []error{elector.ErrIndeterminate}},
	{"entry_gone", []error{backend.ErrNoEntry, backend.ErrCondition, elector.ErrConflict, backend.ErrExists}},
	cancelled,
}

// Reason returns the label of the error of a failed attempt to campaign.
func Reason(err error) string { return reasons.of(err) }

const (
	Elected = "elected" // the outcome of a campaign that was won
	Failed  = "failed"  // the outcome of a campaign that failed with an error
)

var campaignOutcomes = []string{Elected, cancelled.label, Failed}

// CampaignOutcome returns the label for the end of a campaign.
func CampaignOutcome(c elector.CampaignEvent) string {
	switch {
	case c.Err == nil:
		return Elected
	case c.Context.Err() != nil, errors.Is(c.Err, elector.ErrClosed):
		return cancelled.label
	}
	return Failed
}

// OK is the outcome of a successful commit.
const OK = "ok"

// commitOutcomes: ErrIndeterminate comes first, as ErrDeposed says that nothing was written.
var commitOutcomes = classification{
	{OK, []error{nil}},
	{"indeterminate", []error{elector.ErrIndeterminate}},
	{"deposed", []error{elector.ErrDeposed}},
	{"conflict", []error{elector.ErrConflict, backend.ErrNoEntry, backend.ErrNoParent}},
	{"too_large", []error{backend.ErrTooLarge}},
	{"denied", []error{backend.ErrDenied}},
	{"unavailable", []error{backend.ErrUnavailable}},
	cancelled,
}

// CommitOutcome returns the label for the outcome of a commit.
func CommitOutcome(err error) string { return commitOutcomes.of(err) }

// asides are why a candidate stands aside.
var asides = classification{
	{"unfit", []error{elector.ErrUnfit}},
	{"transfer", []error{elector.ErrTransfer}},
}
