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
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy/ranked"
	"github.com/elector-go/elector/strategy/unfair"
)

// hostile is a possible ID or value that a page must not run.
const hostile = `<img src=x onerror="document.title='broken into'"><script>document.title='broken into'</script>"'&amp;`

// text is the page's text about elections. unnamed is what a screen reader could not name.
const (
	text    = `[...document.querySelectorAll("section")].map(s => s.innerText).join("\n")`
	unnamed = `[...document.querySelectorAll("button, input, [role=img], [role=region], section")].filter(e =>
		e.checkVisibility() && !(e.textContent.trim() && e.tagName === "BUTTON") && !e.getAttribute("aria-label") && !e.labels?.length &&
		!document.getElementById(e.getAttribute("aria-labelledby"))?.textContent).map(e => e.outerHTML.slice(0, 80))`
)

// sees waits until a script's result contains want.
func sees(t *testing.T, tab context.Context, script, want string) {
	t.Helper()
	got := ""
	require.Eventually(t, func() bool {
		got = browsertest.Get(t, tab, chromedp.Evaluate[string](script))
		return strings.Contains(got, want)
	}, wait.Patience, 50*time.Millisecond, "%q in %s", want, script)
}

func TestDashboardInBrowser(t *testing.T) {
	url := "mem://browser"
	for _, path := range []string{"/jobs/reindex", "/jobs/report", "/jobs/a-name-that-is-much-longer-than-others-are-and-has-no-place-to-break/in-it", "/db/primary"} {
		t.Cleanup(stands(t, url, path, "host-1", "10.0.0.1:5432"))
		t.Cleanup(stands(t, url, path, "host-2", strings.Repeat("x", 300)))
	}
	stopHostile := stands(t, url, "/hostile", hostile, hostile+"\u202e\x00")
	t.Cleanup(stands(t, url, "/hostile", "second", hostile))
	t.Cleanup(standtest.Stand(t, url, "/unfair", "host-1", "", unfair.Strategy{}))
	for id, rank := range map[string]int64{"host-1": 10, "host-2": 20} {
		t.Cleanup(standtest.Stand(t, url, "/ranked", id, "", ranked.Strategy{Rank: ranked.NewRank(rank)}))
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
		chromedp.Evaluate[chromedp.Void](`document.querySelector("section[aria-label='/jobs/report'] .buttons button").focus()`),
		chromedp.KeyEvent(kb.Enter))
	sees(t, tab, `document.querySelector("dialog[open]")?.innerText ?? ""`, "host-1 leads /jobs/report")
	if browsertest.Seen() {
		browsertest.Keep(t, filepath.Join(folder, "dialog.png"), browsertest.Get(t, tab, browsertest.Shot))
	}
	browsertest.Do(t, tab, chromedp.KeyEvent("deploy"), chromedp.KeyEvent(kb.Enter))
	sees(t, tab, `document.querySelector("section[aria-label='/jobs/report']").innerText`, "Done: host-1 was asked to go.")
	sees(t, tab, `document.querySelector("section[aria-label='/jobs/report']").innerText`, "host-2 has been seen to lead")

	// A cancelled order is not carried out.
	browsertest.Do(t, tab,
		chromedp.Evaluate[chromedp.Void](`document.querySelector("section[aria-label='/db/primary'] .buttons button").click()`),
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

// TestOutOfTouch holds that a page without updates says so.
func TestOutOfTouch(t *testing.T) {
	url := "mem://out-of-touch"
	t.Cleanup(stands(t, url, "/jobs/reindex", "host-1", ""))
	s, address := start(t, url, Config{Path: "/"})
	tab := browsertest.Open(t)
	browsertest.Do(t, tab, chromedp.Navigate(address))
	sees(t, tab, text, "host-1 has been seen to lead")
	assert.NotContains(t, browsertest.Get(t, tab, chromedp.Evaluate[string](`document.body.innerText`)), "Ask the leader")
	browsertest.Do(t, tab, chromedp.Evaluate[chromedp.Void](`window.EventSource = class { close() {} }; 0`))
	s.board.mu.Lock() // no more updates
	browsertest.Do(t, tab, chromedp.Evaluate[chromedp.Void](`heard = -1e9; tick()`))
	sees(t, tab, `document.getElementById("trouble").textContent`, "Out of touch with the dashboard")
	s.board.mu.Unlock()
}

// fed makes a page show only what a script gives to feed. elections makes a state.
const fed = `
	window.feed ??= take;
	take = () => {};
	window.now = Date.now();
	window.ago = s => new Date(now - s * 1000).toISOString();
	window.leading = (path, more) => ({ path, strategy: "fair", leader: { kind: "led", id: "host-1", token: "7", from: ago(60) }, transfers: true, candidates: [],
		spans: [{ kind: "led", id: "host-1", token: "7", from: ago(60) }], ...more });
	window.candidate = (id, more) => ({ key: id, id, session: "s", ...more });
	window.told = (...elections) => {
		feed({ at: ago(0), began: ago(100000), trouble: "", paths: elections.map(e => e.path), elections });
		heard = performance.now();
		tick();
	};
	window.said = () => document.querySelector("main").innerText;
	window.shown = () => String([...document.querySelectorAll("section")].filter(s => s.checkVisibility()).map(s => s.querySelector("h2").firstChild.textContent));
	0`

// TestPage holds how the page shows its input.
func TestPage(t *testing.T) {
	s, address := start(t, "mem://page", Config{Path: "/", Changes: true})
	tab := browsertest.Open(t)
	does := func(script string) { browsertest.Do(t, tab, chromedp.Evaluate[chromedp.Void]("{"+script+"}; 0")) }
	says := func(script string) string { return browsertest.Get(t, tab, chromedp.Evaluate[string](script)) }

	// If the page is open, opening the address with the token lets the user make changes.
	browsertest.Do(t, tab, chromedp.Navigate(address))
	sees(t, tab, `document.getElementById("readonly").textContent`, "open the address that the dashboard has logged")
	does(`location.hash = "` + s.token + `"`)
	require.Eventually(t, func() bool {
		may, err := chromedp.Run(tab, chromedp.Evaluate[bool](`typeof mayChange === "boolean" && mayChange && location.hash === ""`))
		return err == nil && may // no script runs during the reload
	}, wait.Patience, 50*time.Millisecond)
	sees(t, tab, `document.getElementById("summary").textContent`, "0 elections")

	for _, c := range []struct{ about, do, says, want, not string }{
		{"a name with a space", `told(leading("/a b"))`, `document.querySelector("section").ariaLabel ??
			document.querySelector("section").getAttribute("aria-labelledby").split(" ").map(id => document.getElementById(id)?.textContent).join()`, "/a b", ""},
		{"more than are shown", `told(leading("/a", { more: 4800 }))`, "said()", "4800 more stand", ""},
		{"no election any more", `told(leading("/a", { strategy: "", leader: undefined, spans: [{ kind: "vacant", from: ago(5) }] }))`, "said()", "no election here any more", "without a leader."},
		{"a time of another day", `told(leading("/a", { spans: [{ kind: "led", id: "host-1", token: "7", from: "2001-02-03T04:05:06Z" }] }))`, `document.querySelector("figcaption").textContent`, "2001", ""},
		{"changes that are forgotten", `told(leading("/a"))`, `document.querySelector("figcaption").textContent + " " + clock(ago(60))`, "1 term since X", ""},
		{"one term with a time out of touch", `told(leading("/a", { spans: [{ kind: "led", id: "host-1", token: "7", from: ago(60), to: ago(50) },
			{ kind: "unknown", from: ago(50), to: ago(40) }, { kind: "led", id: "host-1", token: "7", from: ago(40) }] }))`, "said()", "1 term since", "2 terms"},
		{"out of touch with the service", `told(leading("/a", { trouble: "no answer" }))`, "said()", "host-1 led when this was seen last", "seen to lead for"},
		{"out of touch with the dashboard", `told(leading("/a")); heard = -1e9; tick()`, "said()", "Out of touch with the dashboard", ""},
		{"a computer that has slept", `told(leading("/a")); heard = performance.now(); const real = Date.now; Date.now = () => real() + 3600e3; tick(); Date.now = real`, "said()",
			"Out of touch with the dashboard", "for 61 min"},
		{"a filter by words of the page's own", `told(...["/a", "/b", "/c", "/d", "/e"].map(p => leading(p))); document.getElementById("filter").value = "spans"; tick()`, "shown()", "", "/a"},
		{"a filter that hides, where there are few", `told(...["/a", "/b", "/c", "/d", "/e"].map(p => leading(p))); document.getElementById("filter").value = "/b"; told(leading("/a"), leading("/b"))`,
			`shown() + " " + document.getElementById("filter").checkVisibility()`, "/b true", "/a"},
		{"focus, while rows move", `document.getElementById("filter").value = ""; told(leading("/a", { candidates: [candidate("x"), candidate("y"), candidate("z")] }));
			document.querySelector("[aria-label='Transfer to z']").focus(); told(leading("/a", { candidates: [candidate("z"), candidate("y"), candidate("x")] }))`,
			`document.activeElement.ariaLabel ?? "lost"`, "Transfer to z", ""},
		{"a reason of before", `told(leading("/a")); document.getElementById("ask-why").value = "of before"; ask("/a", "ask", "")`, `"[" + document.getElementById("ask-why").value + "]"`, "[]", ""},
	} {
		does(fed)
		does(c.do)
		got := says(c.says)
		want := strings.ReplaceAll(c.want, "X", says("clock(ago(60))"))
		assert.Contains(t, got, want, c.about)
		if c.not != "" {
			assert.NotContains(t, got, c.not, c.about)
		}
	}

	// Cards out of sight are not drawn each second: with hundreds of elections that takes longer than a second.
	does(`document.getElementById("ask").close()`)
	does(fed)
	does(`told(...Array.from({ length: 200 }, (_, n) => leading("/" + n))); window.drawn = 0; const real = draw; draw = (...all) => { drawn++; real(...all) }`)
	sees(t, tab, `drawn = 0, tick(), String(drawn > 0 && drawn < 50)`, "true")
	does(`document.querySelector("section:last-child").scrollIntoView()`)
	sees(t, tab, `drawn = [], draw = card => drawn.push(card.path), tick(), String(drawn)`, "199")

	// An update that a page cannot understand does not count as one.
	does(`take = () => { window.came = true; throw new Error("odd") }; heard = -1e9; window.came = false`)
	t.Cleanup(stands(t, "mem://page", "/new", "host-1", ""))
	sees(t, tab, `String(came)`, "true")
	does("tick()")
	assert.Contains(t, says("said()"), "Out of touch with the dashboard")
}
