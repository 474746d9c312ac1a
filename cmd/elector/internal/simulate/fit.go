package simulate

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/elector-go/elector/cmd/elector/internal/report"
	"github.com/elector-go/elector/strategy/catalog"
)

// A point is one measured figure.
type point struct {
	run      report.Run
	measured time.Duration // p50 of leaderless after a resignation
	// doubt is by how much of itself the median may be off by chance: the standard error of
	// a normal distribution's, judged by the distance from p50 to p90. It is not taken for
	// less than surest, since one run differs from the next one.
	doubt float64
}

const surest = 0.02

func newPoint(r report.Run) point {
	q := r.Resigned.Quantiles
	deviation := float64(q.P90-q.P50) / 1.2816
	return point{r, q.P50, max(surest, 1.2533*deviation/math.Sqrt(float64(q.N))/float64(q.P50))}
}

// predicted is the model's figure; it is one that predict knows.
func (p point) predicted(m report.Model) time.Duration {
	d, _ := predict(m, p.run.Strategy, p.run.N)
	return d
}

func points(measured []report.Run) (all []point) {
	for _, r := range measured {
		if _, known := predict(report.Model{}, r.Strategy, r.N); known && r.N >= 2 && r.Resigned.N > 0 && r.Resigned.P50 > 0 {
			all = append(all, newPoint(r))
		}
	}
	return all
}

// Fit finds the model whose leaderless times after a resignation are nearest to the
// measured ones: least squares of the relative errors of the medians, over all runs of
// strategies of which predict has a closed form. A run whose times are
// scattered counts for less than one whose times agree. The calibration compares the two,
// run by run. Runs of different services make one model of all: give
// those of one.
//
// What the runs do not tell stays as it is in Default, and Source says so: Notice needs a
// herd, and Read and KiB a directory that is watched, with many candidates. The split of
// what a handover takes into RoundTrip and Write is weak: their sum is not.
func Fit(measured []report.Run) (report.Model, []report.Calibration, error) {
	all := points(measured)
	if len(all) == 0 {
		return report.Model{}, nil, errors.New("simulate: fit: no measured run of " + strings.Join(catalog.Names(), ", ") + " with a leader change by resignation: measure some")
	}
	m := Default
	params := free(all, &m)
	if len(all) < len(params) {
		return report.Model{}, nil, fmt.Errorf("simulate: fit: %d measured runs are too few for %d parameters: measure other numbers of candidates, too", len(all), len(params))
	}
	descend(all, &m, params)
	for _, p := range params {
		*p.value = p.value.Round(10 * time.Nanosecond)
	}
	calibration := calibrate(all, m)
	m.Source = source(all, params, calibration)
	return m, calibration, nil
}

// A param is one parameter that the runs tell.
type param struct {
	name  string
	value *time.Duration
}

// free are the parameters of m that the points tell.
func free(all []point, m *report.Model) []param {
	params := []param{{"RoundTrip", &m.RoundTrip}, {"Write", &m.Write}}
	herds, lists := 0, make(map[int]bool)
	for _, p := range all {
		if item, _ := catalog.Named(p.run.Strategy); item.Herd && p.run.N >= 10 {
			herds++
		}
		if p.run.Strategy == "parentwatch" && p.run.N >= 10 {
			lists[p.run.N] = true
		}
	}
	if herds == 0 {
		return params[1:] // nothing tells a round trip from a write
	}
	params = append(params, param{"Notice", &m.Notice})
	if len(lists) > 1 {
		params = append(params, param{"Read", &m.Read}, param{"KiB", &m.KiB})
	}
	return params
}

// descend is the method of Levenberg and Marquardt, on the logarithms of the parameters,
// which keeps them above zero.
func descend(all []point, m *report.Model, params []param) {
	at := make([]float64, len(params))
	for i, p := range params {
		at[i] = math.Log(float64(max(*p.value, time.Microsecond)))
	}
	errorsAt := func(at []float64) (each []float64, sum float64) {
		for i, p := range params {
			*p.value = time.Duration(math.Exp(at[i]))
		}
		for _, p := range all {
			e := float64(p.predicted(*m)-p.measured) / float64(p.measured) / p.doubt
			each, sum = append(each, e), sum+e*e
		}
		return each, sum
	}
	now, sum := errorsAt(at)
	for damping, round := 1e-2, 0; round < 500 && damping < 1e12; round++ {
		// J is how each error changes with each parameter; (JᵀJ + damping) step = -Jᵀ error.
		const h = 1e-2 // smaller ones drown in whole nanoseconds
		jacobian := mat.NewDense(len(now), len(at), nil)
		for i := range at {
			moved := slices.Clone(at)
			moved[i] += h
			ahead, _ := errorsAt(moved)
			floats.Sub(ahead, now)
			floats.Scale(1/h, ahead)
			jacobian.SetCol(i, ahead)
		}
		var matrix mat.Dense
		matrix.Mul(jacobian.T(), jacobian)
		for i := range at {
			matrix.Set(i, i, matrix.At(i, i)+damping)
		}
		var step mat.VecDense
		step.MulVec(jacobian.T(), mat.NewVecDense(len(now), now))
		if err := step.SolveVec(&matrix, &step); err != nil {
			damping *= 4 // as good as singular: it needs more
			continue
		}
		tried := slices.Clone(at)
		for i := range tried {
			tried[i] = min(max(at[i]-min(max(step.AtVec(i), -1), 1), 0), 30) // from 1 ns to 3 hours
		}
		if each, better := errorsAt(tried); better < sum {
			at, now, sum, damping = tried, each, better, damping/3
		} else {
			damping *= 4
		}
	}
	errorsAt(at)
}

// calibrate compares a model with what was measured.
func calibrate(all []point, m report.Model) (out []report.Calibration) {
	for _, p := range all {
		d := p.predicted(m)
		out = append(out, report.Calibration{
			Service: p.run.Service, Strategy: p.run.Strategy, N: p.run.N,
			Measured: p.measured, Simulated: d, Error: float64(d-p.measured) / float64(p.measured),
		})
	}
	return out
}

// source says what a model was fitted to, and how well it fits.
func source(all []point, params []param, calibration []report.Calibration) string {
	var services, strategies, fitted []string
	least, most := all[0].run.N, 0
	add := func(to *[]string, s string) {
		if !slices.Contains(*to, s) {
			*to = append(*to, s)
		}
	}
	for _, p := range all {
		add(&services, p.run.Service)
		add(&strategies, p.run.Strategy)
		least, most = min(least, p.run.N), max(most, p.run.N)
	}
	for _, p := range params {
		fitted = append(fitted, p.name)
	}
	var off []float64
	for _, c := range calibration {
		off = append(off, 100*math.Abs(c.Error))
	}
	slices.Sort(off)
	rest := ""
	if len(params) < 5 {
		rest = "; the rest as in the default model"
	}
	return fmt.Sprintf("%s fitted to the leaderless p50 after a resignation of %d runs on %s: %s, %d to %d candidates; off by %.0f %% in the median, by %.0f %% at most%s",
		strings.Join(fitted, ", "), len(all), strings.Join(services, ", "), strings.Join(strategies, ", "), least, most, off[len(off)/2], off[len(off)-1], rest)
}
