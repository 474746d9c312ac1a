package page

import (
	"bytes"
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/cmd/elector/internal/browsertest"
	"github.com/elector-go/elector/cmd/elector/internal/report"
)

// blank is a script that returns the sections that leave the right third of the page blank.
const blank = `[...document.querySelectorAll("section")].filter(s =>
	Math.max(...[...s.querySelectorAll("svg, table")].map(e => e.getBoundingClientRect().right)) < document.documentElement.clientWidth * 2 / 3).map(s => s.id)`

// paper is a script that returns the colours of the page's paper and of its first text.
const paper = `[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.querySelector("h1")).color]`

func TestPageInBrowser(t *testing.T) {
	tab := browsertest.Open(t)
	folder := t.ArtifactDir()
	var heard browsertest.Complaints
	heard.Listen(t, tab)
	// One service, as it takes time; two are in the hostile report.
	whole := sample(t)
	whole.Runs = slices.DeleteFunc(whole.Runs, func(r report.Run) bool { return r.Service[0] == 'm' })
	one := sample(t)
	one.Runs = one.Runs[:1]
	one.Growth = nil
	for _, c := range []struct {
		name  string
		r     report.Report
		whole bool // it has enough to fill a page
	}{{"report", whole, true}, {"hostile", hostile(t), false}, {"empty", report.Report{}, false}, {"one-run", one, false}, {"crowd", crowd(t), false}, {"failed", failedRuns(t), false}} {
		t.Run(c.name, func(t *testing.T) {
			var html bytes.Buffer
			require.NoError(t, Write(&html, c.r))
			browsertest.Do(t, tab, chromedp.Navigate(browsertest.Keep(t, filepath.Join(folder, c.name+".html"), html.Bytes())))
			for _, e := range browsertest.Eyes {
				lookAt(t, tab, e)
				if c.whole && e.Width >= 1200 {
					assert.Empty(t, browsertest.Get(t, tab, chromedp.Evaluate[[]string](blank)), "%s: the right third of the page is blank", e.Name)
				}
				if browsertest.Seen() {
					browsertest.Keep(t, filepath.Join(folder, c.name+"-"+e.Name+".png"), browsertest.Get(t, tab, browsertest.Shot))
				}
			}
			assert.Empty(t, heard.Take())
		})
	}
}

// lookAt shows the page to a browsertest.Eye, and reports the faults.
func lookAt(t *testing.T, tab context.Context, e browsertest.Eye) {
	wrong := browsertest.Show(t, tab, e)
	colours := browsertest.Get(t, tab, chromedp.Evaluate[[]string](paper))
	assert.Empty(t, wrong, e.Name)
	want := []string{"rgb(255, 254, 251)", "rgb(31, 29, 26)"}
	if strings.HasSuffix(e.Name, "dark") {
		want = []string{"rgb(23, 24, 27)", "rgb(235, 232, 226)"}
	}
	assert.Equal(t, want, colours, "%s: paper and ink", e.Name)
}

// TestChartsInBrowser opens each picture by itself, light and dark.
func TestChartsInBrowser(t *testing.T) {
	tab := browsertest.Open(t)
	folder := t.ArtifactDir()
	charts := Charts(sample(t))
	require.NotEmpty(t, charts)
	var heard browsertest.Complaints
	heard.Listen(t, tab)
	for name, svg := range charts {
		t.Run(name, func(t *testing.T) {
			browsertest.Do(t, tab, chromedp.Navigate(browsertest.Keep(t, filepath.Join(folder, name), svg)))
			for _, e := range browsertest.Eyes[6:8] { // 1200 px, light and dark
				assert.Empty(t, browsertest.Show(t, tab, e), e.Name)
				if browsertest.Seen() {
					browsertest.Keep(t, filepath.Join(folder, strings.TrimSuffix(name, ".svg")+"-"+e.Name+".png"), browsertest.Get(t, tab, chromedp.CaptureScreenshot()))
				}
			}
			assert.Empty(t, heard.Take())
		})
	}
}
