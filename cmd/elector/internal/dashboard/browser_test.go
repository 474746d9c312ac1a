package dashboard

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/cmd/elector/internal/browsertest"
	"github.com/elector-go/elector/cmd/elector/internal/standtest"
	"github.com/elector-go/elector/strategy/ranked"
	"github.com/elector-go/elector/strategy/unfair"
)

// hostile is what an ID or a value may be, and what a page must not run.
const hostile = `<img src=x onerror="document.title='broken into'"><script>document.title='broken into'</script>"'&amp;`

// text is what the page says of an election, and unnamed what a screen reader could not tell.
const (
	text    = `[...document.querySelectorAll("section")].map(s => s.innerText).join("\n")`
	unnamed = `[...document.querySelectorAll("button, input, svg[role], [role=region], section")].filter(e =>
		e.checkVisibility() && !(e.textContent.trim() && e.tagName === "BUTTON") && !e.getAttribute("aria-label") && !e.labels?.length &&
		!document.getElementById(e.getAttribute("aria-labelledby"))?.textContent).map(e => e.outerHTML.slice(0, 80))`
)

// sees waits until a script returns what is wanted.
func sees(t *testing.T, tab context.Context, script, want string) {
	t.Helper()
	got := ""
	require.Eventually(t, func() bool {
		got = browsertest.Get(t, tab, chromedp.Evaluate[string](script))
		return strings.Contains(got, want)
	}, time.Minute, 50*time.Millisecond, "%q in %s", want, script)
}

func TestDashboardInBrowser(t *testing.T) {
	url := "mem://browser"
	for _, path := range []string{"/jobs/reindex", "/jobs/report", "/jobs/a-name-that-is-much-longer-than-others-are-and-has-no-place-to-break/in-it", "/db/primary"} {
		t.Cleanup(stands(t, url, path, "host-1", "10.0.0.1:5432"))
		t.Cleanup(stands(t, url, path, "host-2", strings.Repeat("x", 300)))
	}
	stopHostile := stands(t, url, "/hostile", hostile, hostile+"\u202e\x00")
	t.Cleanup(stands(t, url, "/hostile", "second", hostile))
	t.Cleanup(standtest.Stand(t, url, "/unfair", "host-1", "", unfair.New()))
	for id, rank := range map[string]int64{"host-1": 10, "host-2": 20} {
		t.Cleanup(standtest.Stand(t, url, "/ranked", id, "", ranked.New(ranked.NewRank(rank))))
	}
	stands(t, url, "/empty", "host-1", "")()
	s, address := start(t, url, Config{Path: "/", Changes: true, By: "anna"})
	tab := browsertest.Open(t)
	var heard browsertest.Complaints
	heard.Listen(t, tab)
	browsertest.Do(t, tab, chromedp.Navigate(address+"/#"+s.token))
	sees(t, tab, text, "second")
	sees(t, tab, `document.getElementById("summary").textContent`, "8 elections, 1 without a leader.")
	stopHostile()
	sees(t, tab, text, "second has been seen to lead")
	assert.Equal(t, "Elections at /", browsertest.Get(t, tab, chromedp.Evaluate[string]("document.title")))
	assert.Equal(t, "", browsertest.Get(t, tab, chromedp.Evaluate[string]("location.hash")), "the token is not left where it is copied")
	assert.Empty(t, browsertest.Get(t, tab, chromedp.Evaluate[[]string](unnamed)))

	folder := t.ArtifactDir()
	for _, e := range browsertest.Eyes {
		assert.Empty(t, browsertest.Show(t, tab, e), e.Name)
		if browsertest.Seen() {
			browsertest.Keep(t, filepath.Join(folder, "dashboard-"+e.Name+".png"), browsertest.Get(t, tab, browsertest.Shot))
		}
	}

	// By keyboard: the leader is asked to go, with a reason, and goes.
	browsertest.Do(t, tab,
		chromedp.Evaluate[chromedp.Void](`document.querySelector("[aria-labelledby='election-/jobs/report'] .buttons button").focus()`),
		chromedp.KeyEvent(kb.Enter))
	sees(t, tab, `document.querySelector("dialog[open]")?.innerText ?? ""`, "host-1 leads /jobs/report")
	if browsertest.Seen() {
		browsertest.Keep(t, filepath.Join(folder, "dialog.png"), browsertest.Get(t, tab, browsertest.Shot))
	}
	browsertest.Do(t, tab, chromedp.KeyEvent("deploy"), chromedp.KeyEvent(kb.Enter))
	sees(t, tab, `document.querySelector("[aria-labelledby='election-/jobs/report']").innerText`, "Done: host-1 was asked to go.")
	sees(t, tab, `document.querySelector("[aria-labelledby='election-/jobs/report']").innerText`, "host-2 has been seen to lead")

	// What is cancelled is not done.
	browsertest.Do(t, tab,
		chromedp.Evaluate[chromedp.Void](`document.querySelector("[aria-labelledby='election-/db/primary'] .buttons button").click()`),
		chromedp.KeyEvent(kb.Escape))
	sees(t, tab, `String(document.querySelector("dialog[open]"))`, "null")
	e := shows(t, s, "/db/primary", leads("host-1"))
	assert.Empty(t, e.Asked)

	// A filter hides the others.
	browsertest.Do(t, tab, chromedp.Evaluate[chromedp.Void](`document.getElementById("filter").focus()`), chromedp.KeyEvent("primary"))
	sees(t, tab, `[...document.querySelectorAll("section")].filter(s => s.checkVisibility()).length + " are shown"`, "1 are shown")
	for _, complaint := range heard.Take() {
		if !strings.HasPrefix(complaint, "request: "+address+"/") { // its own
			t.Error(complaint)
		}
	}
}

// TestOutOfTouch holds that a page that nobody keeps up to date says so.
func TestOutOfTouch(t *testing.T) {
	url := "mem://out-of-touch"
	t.Cleanup(stands(t, url, "/jobs/reindex", "host-1", ""))
	s, address := start(t, url, Config{Path: "/"})
	tab := browsertest.Open(t)
	browsertest.Do(t, tab, chromedp.Navigate(address))
	sees(t, tab, text, "host-1 has been seen to lead")
	assert.NotContains(t, browsertest.Get(t, tab, chromedp.Evaluate[string](`document.body.innerText`)), "Ask the leader")
	browsertest.Do(t, tab, chromedp.Evaluate[chromedp.Void](`window.EventSource = class { close() {} }; 0`))
	s.board.mu.Lock() // nothing more is told
	browsertest.Do(t, tab, chromedp.Evaluate[chromedp.Void](`heard = -1e9; tick()`))
	sees(t, tab, `document.getElementById("trouble").textContent`, "Out of touch with the dashboard")
	s.board.mu.Unlock()
}
