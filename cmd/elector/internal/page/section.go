package page

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/elector-go/elector/cmd/elector/internal/report"
)

// A section answers one question, service by service.
type section struct {
	ID, Title, Intro string
	of               func(service) part
	Parts            []part
}

// A part is a section's content for one service: a picture with the figures beside it, notes, and sentences
// for what is missing.
type part struct {
	Heading string
	Beside  bool    // the tables are narrow enough to be beside the picture of a wide page
	Picture picture // without panels: there is none
	Notes   []string
	Missing []string
	Tables  []table
}

// Sections returns the sections of a report that has anything.
func (v view) Sections() []section {
	if len(v.Runs) == 0 {
		return nil
	}
	all := []section{
		{ID: "glance", Title: "At a glance", of: service.glance,
			Intro: "Per leader change: the median time without a leader after a resignation, and after a crash; means over all candidates of the rest. Order kept is 100\u00a0% less the inversions: 100\u00a0% is strict order of arrival, about 50\u00a0% is chance."},
		{ID: "change", Title: "One leader change, watched closely", of: service.change,
			Intro: "Each row is a candidate, in the order of arrival. Where many rings stand above one another, the service has woken a herd: all are told, and one will lead."},
		{ID: "leaderless", Title: "Time without a leader", of: service.leaderless,
			Intro: "From the end of a term’s hold on the seat until the next campaign has returned: of a resignation from the call, of a crash from the instant at which the service dropped the leader’s entry."},
		{ID: "cost", Title: "What a leader change costs", of: service.cost,
			Intro: "All that candidates were told and asked of the service, over all candidates, from the change until all is still, the old leader’s return included. A wake-up is a notice to a candidate that something it watches has changed."},
		{ID: "fairness", Title: "Who is elected", of: service.fairness,
			Intro: "How often each candidate was elected. Jain’s index, over those who were there all the time, is 1 when all won equally often, and 1/N when one won all. Even strict turns reach 1 only if the leader changes divide evenly among the candidates: 40 changes among 30 candidates give 0.89."},
		{ID: "waiting", Title: "How long a candidate waits", of: service.waiting,
			Intro: "From a candidate’s arrival to its election. A steep line means that all wait about equally long; a long foot and head mean that some are lucky and others are not."},
	}
	for _, s := range v.services() {
		for i := range all {
			p := all[i].of(s)
			p.Heading = s.name
			all[i].Parts = append(all[i].Parts, p)
		}
	}
	return all
}

// A service is a report's content about one service.
type service struct {
	view
	name string
	slug string // for file names and ids
	runs []report.Run
}

var notInSlugs = regexp.MustCompile(`[^a-z0-9]`)

// services returns the services of a report, in its order. A slug is the service's kind, its URL's scheme,
// with a number if it is not the first of its kind.
func (v view) services() (all []service) {
	kinds := make(map[string]int)
	for _, run := range v.Runs {
		i := slices.IndexFunc(all, func(s service) bool { return s.name == run.Service })
		if i < 0 {
			i = len(all)
			slug, _, _ := strings.Cut(run.Service, ":")
			slug = cmp.Or(notInSlugs.ReplaceAllString(strings.ToLower(slug), ""), "service")
			if kinds[slug]++; kinds[slug] > 1 {
				slug += "-" + strconv.Itoa(kinds[slug])
			}
			all = append(all, service{view: v, name: run.Service, slug: slug})
		}
		all[i].runs = append(all[i].runs, run)
	}
	return all
}

// sizes returns the numbers of candidates of the runs, rising.
func sizes(runs []report.Run) (ns []int) {
	for _, run := range runs {
		ns = append(ns, run.N)
	}
	slices.Sort(ns)
	return slices.Compact(ns)
}

// find returns the run of a strategy with n candidates.
func (s service) find(strategy string, n int) (report.Run, bool) {
	i := slices.IndexFunc(s.runs, func(r report.Run) bool { return r.Strategy == strategy && r.N == n })
	if i < 0 {
		return report.Run{}, false
	}
	return s.runs[i], true
}

// few is how many candidates a picture can show distinctly.
const few = 60

// most returns the runs, one per strategy, of the N at which most strategies satisfy has; of several such N
// the largest that is not over limit, or the smallest if all are.
func (s service) most(limit int, has func(report.Run) bool) (best []report.Run) {
	for _, n := range sizes(s.runs) {
		if at := s.at(n, has); len(at) > len(best) || len(at) == len(best) && n <= limit {
			best = at
		}
	}
	return best
}

// at returns the runs with n candidates that satisfy has, one per strategy.
func (s service) at(n int, has func(report.Run) bool) (at []report.Run) {
	for _, strategy := range strategies(s.runs) {
		if run, ok := s.find(strategy, n); ok && has(run) {
			at = append(at, run)
		}
	}
	return at
}

// lacking says which strategies are not among the runs, if any.
func (s service) lacking(says string, runs []report.Run) []string {
	with := strategies(runs)
	names := slices.DeleteFunc(strategies(s.runs), func(name string) bool { return slices.Contains(with, name) })
	if len(names) == 0 {
		return nil
	}
	return []string{fmt.Sprintf(says, list(names))}
}

// partly notes that a picture shows fewer candidates than the tables, or returns "".
func (s service) partly(n int) string {
	most := slices.Max(sizes(s.runs))
	if n == most {
		return ""
	}
	return fmt.Sprintf(" This is a part of what was tried: the tables go up to %s, which could not be told apart here.", plural(most, "candidate"))
}

// beside reports whether tables with a column for each N are narrow.
func (s service) beside() bool { return len(sizes(s.runs)) <= 4 }
