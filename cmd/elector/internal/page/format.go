package page

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// nbsp keeps a number and its unit on one line.
const nbsp = "\u00a0"

// duration formats d to three digits, in a suitable unit, for a table.
func duration(d time.Duration) string { return inUnit(float64(d), threeDigits) }

// span is duration for nanoseconds that are a mean or a slope, without trailing zeros: for an axis, or a
// setting.
func span(ns float64) string { return inUnit(ns, count) }

func inUnit(ns float64, format func(float64) string) string {
	if ns == 0 {
		return "0"
	}
	return scaled(ns, format, "s", "ms", "µs", "ns")
}

// scaled formats v in the largest of the units that it fills, or almost fills: each unit is a thousand of the
// next, and v is in the last one.
func scaled(v float64, format func(float64) string, units ...string) string {
	last := len(units) - 1
	for i, unit := range units[:last] {
		if size := math.Pow10(3 * (last - i)); math.Abs(v) >= 0.9995*size {
			return format(v/size) + nbsp + unit
		}
	}
	return count(v) + nbsp + units[last]
}

// count formats a number of things, or a mean of such numbers: to three digits, or to the point if there are
// more before it.
func count(v float64) string {
	s := threeDigits(v)
	if strings.Contains(s, ".") {
		s = strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// threeDigits formats v with three digits, or all before the point, and commas.
func threeDigits(v float64) string {
	switch a := math.Abs(v); {
	case a < 9.995:
		return places(v, 2)
	case a < 99.95:
		return places(v, 1)
	}
	return places(v, 0)
}

// places formats v with n places after the point, and commas.
func places(v float64, n int) string {
	s := strconv.FormatFloat(math.Abs(v), 'f', n, 64)
	whole, _, _ := strings.Cut(s, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	if v < 0 && strings.Trim(s, "0.") != "" {
		s = "−" + s
	}
	return s
}

// index formats a figure between 0 and 1, such as Jain's.
func index(v float64) string { return places(v, 2) }

// size formats a number of bytes, in powers of a thousand, as the axis does.
func size(v float64) string { return scaled(v, count, "GB", "MB", "kB", "B") }

// percent formats a share, or an error, as a percentage without places.
func percent(v float64) string { return places(v*100, 0) + nbsp + "%" }

// signed adds a sign to a number.
func signed(s string) string {
	if strings.HasPrefix(s, "−") {
		return s
	}
	return "+" + s
}

// plural returns n and the word for n of them.
func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(float64(n)) + " " + one + "s"
}

// extent formats a range of things, from n to m.
func extent(n, m int, one string) string {
	if n == m {
		return plural(n, one)
	}
	return count(float64(n)) + " to " + plural(m, one)
}

// durations formats a range, from a to b.
func durations(a, b time.Duration) string {
	if duration(a) == duration(b) {
		return duration(a)
	}
	return duration(a) + " to " + duration(b)
}

// list joins names as a sentence does.
func list(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
