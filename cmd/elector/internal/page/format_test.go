package page

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestFormats(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{duration(0), "0"}, {duration(1), "1 ns"}, {duration(999), "999 ns"},
		{duration(1230 * time.Microsecond), "1.23 ms"}, {duration(12 * time.Millisecond), "12.0 ms"},
		{duration(999600 * time.Microsecond), "1.00 s"}, {duration(-140 * time.Microsecond), "−140 µs"},
		{duration(83 * time.Minute), "4,980 s"},
		{span(1e6), "1 ms"}, {span(2.5e9), "2.5 s"},
		{count(0), "0"}, {count(1234567), "1,234,567"}, {count(999), "999"}, {count(1.5), "1.5"}, {count(12.34), "12.3"}, {count(-0.001), "0"},
		{size(0), "0 B"}, {size(999), "999 B"}, {size(1000), "1 kB"}, {size(61.96e6), "62 MB"},
		{percent(-0.126), "−13 %"}, {signed("1"), "+1"}, {signed("−1"), "−1"},
		{plural(1, "read"), "1 read"}, {plural(2000, "read"), "2,000 reads"},
		{list([]string{"a"}), "a"}, {list([]string{"a", "b", "c"}), "a, b and c"},
	} {
		assert.Equal(t, c.want, strings.ReplaceAll(c.got, nbsp, " "))
	}
}

func TestLogAxis(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		from, to  float64
		labels    string
	}{
		{1.05e6, 96e6, 1e6, 1e8, "1 ms 2 ms 5 ms 10 ms 20 ms 50 ms 100 ms"},
		{1, 1, 1, 10, "1 ns 2 ns 3 ns 5 ns 7 ns 10 ns"},
		{6e5, 1.2e11, 5e5, 2e11, "1 ms 10 ms 100 ms 1 s 10 s 100 s"},
	} {
		a := logAxis(c.low, c.high, span)
		assert.InEpsilon(t, c.from, a.low, 1e-9)
		assert.InEpsilon(t, c.to, a.high, 1e-9)
		var labels []string
		for _, tick := range a.ticks {
			labels = append(labels, strings.ReplaceAll(tick.label, nbsp, " "))
		}
		assert.Equal(t, c.labels, strings.Join(labels, " "), "%g to %g", c.low, c.high)
	}
}

func TestSpread(t *testing.T) {
	heights := []float64{10, 11, 12, 99}
	spread(heights, 14, 5, 100)
	for i, h := range heights {
		assert.False(t, h < 5 || h > 100 || i > 0 && h-heights[i-1] < 14-1e-9, "%v: too near, or outside", heights)
	}
}

// TestLooks holds that looks differ in each way.
func TestLooks(t *testing.T) {
	for i, l := range looks {
		assert.Contains(t, chartStyle, fmt.Sprintf(".%[1]s { color: var(--%[1]s) }", l.ink), "chart.css: add a rule, and --%s for light and for dark", l.ink)
		for _, o := range looks[:i] {
			if o.ink == l.ink || o.dash == l.dash || o.shape == l.shape {
				t.Errorf("palette.go: %s and %s have the colour, the dashes or the mark in common", o.ink, l.ink)
			}
		}
	}
}

// TestContrast holds that all text and marks can be read on the paper, light and dark, by WCAG's measure: 4.5
// to 1.
func TestContrast(t *testing.T) {
	light, dark, _ := strings.Cut(chartStyle, "@media")
	for name, css := range map[string]string{"light": light, "dark": dark} {
		colours := make(map[string]string)
		for _, m := range regexp.MustCompile(`--([a-z0-9]+): (#[0-9a-f]{6});`).FindAllStringSubmatch(css, -1) {
			colours[m[1]] = m[2]
		}
		inks := []ink{inkText, inkMuted, inkAlert}
		for _, l := range looks {
			inks = append(inks, l.ink)
		}
		for _, ink := range inks {
			for _, ground := range []string{"paper", "gap"} {
				least := 4.5
				if ground == "gap" {
					least = 3 // only marks are on it
				}
				got := contrast(colours[string(ink)], colours[ground])
				assert.True(t, got >= least, "%s: %s on %s has a contrast of %.2f, less than %g", name, ink, ground, got, least)
			}
		}
	}
}

func contrast(a, b string) float64 {
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func luminance(hex string) float64 {
	var rgb [3]uint8
	if _, err := fmt.Sscanf(hex, "#%02x%02x%02x", &rgb[0], &rgb[1], &rgb[2]); err != nil {
		return math.NaN()
	}
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		v := float64(rgb[i]) / 255
		if v <= 0.04045 {
			sum += weight * v / 12.92
		} else {
			sum += weight * math.Pow((v+0.055)/1.055, 2.4)
		}
	}
	return sum
}
