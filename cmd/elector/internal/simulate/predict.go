package simulate

import (
	"time"

	"github.com/elector-go/elector/cmd/elector/internal/report"
)

// predict is the median of the simulated leaderless time after a resignation, in closed
// form: Run without running, so that parameters can be searched. ok is false for strategies
// of which it does not know how they wait.
//
// The deletion takes effect there + Write after the call. From then on:
//
//   - fair: two notices, to the old leader and to the next.
//   - unfair, kafka: N notices, the old leader's first. Who is told next writes first: its
//     request waits until all are told, or is there later than that.
//   - parentwatch: N notices, the old leader's first (its watch on the directory was spent
//     when the last one came back). The next leader's is in the middle of the others, and
//     half of them list before it does.
//   - ranked, with equal ranks: two notices, as fair. Then the next one
//     lists, reads the one that has come since it looked last (the last leader, where there
//     are others), and writes. That it reads all others is over by then: it did so when it became
//     the next. (On a real service the last leader may be back while the next one still looks:
//     that is one read less.)
func predict(m report.Model, strategy string, n int) (leaderless time.Duration, ok bool) {
	trip, notice, many := float64(m.RoundTrip), float64(m.Notice), float64(n)
	told := many * notice
	var after float64
	switch strategy {
	case "fair":
		after = 2 * notice
	case "unfair", "kafka":
		after = max(told, 2*notice+trip) + float64(m.Write)
	case "parentwatch":
		list := float64(listCost(m, n-1))
		before := many / 2 // of those N-1 who list, up to the next leader itself: 1 to N-1
		after = max(max(told, 2*notice+trip)+before*list, notice+before*notice+trip+list)
	case "ranked":
		reads := 1.0
		if n == 2 {
			reads = 0 // the last leader became the next when it came
		}
		after = 2*notice + reads*(trip+float64(m.Read)) + trip + float64(listCost(m, n-1)) + trip + float64(m.Write)
	default:
		return 0, false
	}
	return time.Duration(trip/2 + float64(m.Write) + after + trip/2), true
}
