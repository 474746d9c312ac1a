package main

import (
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/backend/meter"
)

var update = flag.Bool("update", false, "write the table of docs/recipes.md, and its picture")

const (
	page    = "../../docs/recipes.md"
	drawing = "../../docs/pictures/shared-lock.svg"
	css     = "../../cmd/elector/internal/page/chart.css" // that of all pictures
)

// sizes are numbers of participants.
var sizes = []int{10, 30, 100, 300}

// drained is what a line asks of the service until all of it have held the lock: n participants, of
// which each tenth writes. The first writes, and all others stand in line when it releases. Counts
// begin at that moment.
func drained(t *testing.T, n int, herd bool) (counts meter.Counts) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := meter.New(memory.New(memory.Options{}), nil)
		l := SharedLock{Dir: "/shared", Herd: herd}
		held, err := l.Write(t.Context(), open(t, b), "")
		require.NoError(t, err)
		var all sync.WaitGroup
		for i := 1; i < n; i++ {
			s, lock := open(t, b), l.Read
			if i%10 == 0 {
				lock = l.Write
			}
			all.Go(func() {
				h, err := lock(t.Context(), s, "")
				if assert.NoError(t, err) {
					time.Sleep(time.Second + time.Duration(i)*time.Millisecond) // one leaves after the other
					assert.NoError(t, h.Release(t.Context()))
				}
			})
			synctest.Wait()
		}
		before := b.Counts()
		require.NoError(t, held.Release(t.Context()))
		all.Wait()
		counts = b.Counts().Sub(before)
	})
	return counts
}

// TestHerdOfASharedLock measures the table and the picture of docs/recipes.md, and holds that they are what
// is measured.
func TestHerdOfASharedLock(t *testing.T) {
	var table strings.Builder
	fmt.Fprintln(&table, "| participants | wake-ups with the herd | without | per participant with the herd | without |")
	fmt.Fprintln(&table, "|---:|---:|---:|---:|---:|")
	var herd, line []float64
	for _, n := range sizes {
		h, l := drained(t, n, true).WakeUps, drained(t, n, false).WakeUps
		herd, line = append(herd, float64(h)), append(line, float64(l))
		assert.Equal(t, n-1, l, "each that waits wakes once: nobody gives up")
		fmt.Fprintf(&table, "| %d | %s | %s | %.1f | %.1f |\n", n, thousands(h), thousands(l), float64(h)/float64(n-1), float64(l)/float64(n-1))
	}
	picture := draw(t, herd, line)
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	const from, to = "<!-- TestHerdOfASharedLock writes this table. -->\n\n", "\n<!-- Its end. -->"
	start, old, ok := strings.Cut(string(text), from)
	require.True(t, ok)
	old, end, ok := strings.Cut(old, to)
	require.True(t, ok)
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(start+from+table.String()+to+end), 0o666))
		require.NoError(t, os.WriteFile(drawing, []byte(picture), 0o666))
		return
	}
	drawn, err := os.ReadFile(drawing)
	require.NoError(t, err)
	const hint = "go test ./examples/recipes -run TestHerdOfASharedLock -args -update"
	assert.Equal(t, table.String(), old, hint)
	assert.Equal(t, picture, string(drawn), hint)
}

// thousands writes 1234567 as 1,234,567.
func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// draw makes the picture: wake-ups against participants, both axes logarithmic.
func draw(t *testing.T, herd, line []float64) string {
	t.Helper()
	style, err := os.ReadFile(css)
	require.NoError(t, err)
	const left, right, top, bottom = 80, 560, 44, 270
	x := func(n float64) float64 { return left + (right-left)*math.Log(n/10)/math.Log(30) }
	const decades = 4 // from 10 up
	y := func(v float64) float64 { return bottom - (bottom-top)*math.Log10(v/10)/decades }
	var b strings.Builder
	text := func(class, anchor string, x, y float64, s string) {
		fmt.Fprintf(&b, "<text class=\"t %s\" text-anchor=\"%s\" x=\"%.1f\" y=\"%.1f\" font-size=\"11.5\">%s</text>\n", class, anchor, x, y, s)
	}
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 680 320" width="680" height="320" aria-labelledby="shared-lock-title shared-lock-desc">
<title id="shared-lock-title">Wake-ups of a shared lock</title>
<desc id="shared-lock-desc">Wake-ups until all participants have held a shared lock, against their number. With the herd: %s at %d, %s at %d. Without: %s at %d, %s at %d.</desc>
<style>%s</style>
<path class="f paper" d="M0 320L680 320L680 0L0 0Z"/>
`, thousands(int(herd[0])), sizes[0], thousands(int(herd[len(herd)-1])), sizes[len(sizes)-1],
		thousands(int(line[0])), sizes[0], thousands(int(line[len(line)-1])), sizes[len(sizes)-1], style)
	for d := range decades + 1 {
		v := math.Pow10(d + 1)
		fmt.Fprintf(&b, "<path class=\"s grid\" stroke-width=\"0.7\" d=\"M%d %.1fL%d %.1f\"/>\n", left, y(v), right, y(v))
		text("muted", "end", left-8, y(v)+4, thousands(int(v)))
	}
	for _, n := range sizes {
		text("muted", "middle", x(float64(n)), bottom+18, fmt.Sprint(n))
	}
	text("muted", "end", right, bottom+38, "participants, each tenth a writer")
	text("text b", "start", left-60, 22, "Wake-ups until all have held the lock")
	for _, curve := range []struct {
		class, name string
		values      []float64
	}{{"parentwatch", "with the herd", herd}, {"fair", "without", line}} {
		var path strings.Builder
		for i, v := range curve.values {
			fmt.Fprintf(&path, "%c%.1f %.1f", "ML"[min(i, 1)], x(float64(sizes[i])), y(v))
			fmt.Fprintf(&b, "<circle class=\"f %s\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/>\n", curve.class, x(float64(sizes[i])), y(v))
		}
		fmt.Fprintf(&b, "<path class=\"s %s\" stroke-width=\"1.7\" d=\"%s\"/>\n", curve.class, path.String())
		text(curve.class+" b", "start", right+10, y(curve.values[len(curve.values)-1])+4, curve.name)
	}
	return b.String() + "</svg>\n"
}
