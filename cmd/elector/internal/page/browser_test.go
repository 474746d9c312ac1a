package page

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/elector-go/elector/cmd/elector/internal/report"
)

// browser starts a headless Chromium, and gives a context in which chromedp drives it.
// It ends with the test.
func browser(t *testing.T) context.Context {
	t.Helper()
	path, err := findBrowser(exec.LookPath)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.MkdirTemp("", "browser-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(data); err != nil {
			t.Log(err) // a process of the browser's may still write there
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // a hang, not a limit
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path),
		chromedp.NoSandbox, // which root cannot have; the page is our own
		chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.UserDataDir(data),
		chromedp.WSURLReadTimeout(40*time.Second),
	)...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	do(t, ctx) // starts it
	// Closes the browser and waits for it, so that the folder of its data can be removed.
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("closing the browser: %v", err)
		}
	})
	return ctx
}

func findBrowser(look func(string) (string, error)) (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := look(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no Chromium here, and these tests look at the page in a browser: 'make setup' installs it, or says what to install")
}

// TestNoBrowserFails holds that a missing browser is not passed over in silence.
func TestNoBrowserFails(t *testing.T) {
	_, err := findBrowser(func(string) (string, error) { return "", exec.ErrNotFound })
	if err == nil || !strings.Contains(err.Error(), "make setup") {
		t.Errorf("no browser: %v", err)
	}
}

// eye is how a page is looked at.
type eye struct {
	name          string
	width, height int64
	scheme, media string
}

var eyes = func() (all []eye) {
	for _, width := range []int64{360, 400, 800, 1200, 1600} {
		for _, scheme := range []string{"light", "dark"} {
			all = append(all, eye{fmt.Sprintf("%d-%s", width, scheme), width, 900, scheme, "screen"})
		}
	}
	return append(all, eye{"print", 720, 1000, "dark", "print"}) // paper is white
}()

// complaints collects what the browser has to say against a page, and what it tried to load.
type complaints struct {
	mu  sync.Mutex
	all []string
}

// listen begins to collect. What a page causes before a command is answered is collected
// by the time of the answer.
func (c *complaints) listen(t *testing.T, tab context.Context) {
	t.Helper()
	if err := chromedp.Listen(tab, func(ev any) {
		c.mu.Lock()
		defer c.mu.Unlock()
		switch ev := ev.(type) {
		case *runtime.EventExceptionThrown:
			c.all = append(c.all, fmt.Sprintf("exception: %+v", ev.ExceptionDetails.Exception))
		case *runtime.EventConsoleAPICalled:
			c.all = append(c.all, fmt.Sprintf("console.%s was called", ev.Type))
		case *log.EventEntryAdded:
			c.all = append(c.all, fmt.Sprintf("console: %s: %s", ev.Entry.Level, ev.Entry.Text))
		case *network.EventRequestWillBeSent:
			// But for the page itself, and what is in it.
			if u := ev.Request.URL; ev.Type != network.ResourceTypeDocument && !strings.HasPrefix(u, "data:") {
				c.all = append(c.all, "request: "+u)
			}
		case *network.EventLoadingFailed:
			c.all = append(c.all, "request failed: "+ev.ErrorText)
		}
	}); err != nil {
		t.Fatal(err)
	}
}

func (c *complaints) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.all
	c.all = nil
	return all
}

// faults is a script that returns what is wrong with the page as it is seen.
const faults = `(() => {
	const wrong = [];
	const root = document.documentElement;
	if (root.scrollWidth > root.clientWidth) {
		wrong.push("the page is " + root.scrollWidth + " px wide, the window " + root.clientWidth);
		for (const e of document.querySelectorAll("main *")) {
			if (!e.closest(".scroll") && !e.closest("svg") && e.getBoundingClientRect().right > root.clientWidth + 0.5) wrong.push("  " + e.tagName + "." + e.className);
		}
	}
	// A table that is cut off shows so, and has what matters most in sight.
	for (const box of document.querySelectorAll(".scroll")) {
		if (box.scrollWidth <= box.clientWidth) continue;
		const name = box.getAttribute("aria-label");
		if (!getComputedStyle(box).backgroundImage.includes("gradient")) wrong.push(name + ": nothing shows that there is more of it");
		for (const th of [...box.querySelectorAll("thead th")].slice(0, box.closest("#glance") ? 3 : 2)) {
			const [a, b] = [th.getBoundingClientRect(), box.getBoundingClientRect()];
			if (a.right > b.right && (box.closest("#glance") || a.width < b.width / 2)) wrong.push(name + ": '" + th.textContent + "' is out of sight");
		}
	}
	for (const svg of document.querySelectorAll("svg")) {
		const name = (svg.querySelector("title") || {}).id || "swatch";
		const box = svg.getBoundingClientRect();
		if (box.width < 20 || box.height < 8) wrong.push(name + ": an empty picture");
		const texts = [...svg.querySelectorAll("text")].map(e => [e, e.getBoundingClientRect()]);
		const slack = 1.5 * box.width / svg.viewBox.baseVal.width;
		for (const e of svg.querySelectorAll("text, path")) {
			const b = e.getBoundingClientRect();
			if (b.left < box.left - slack || b.right > box.right + slack || b.top < box.top - slack || b.bottom > box.bottom + slack)
				wrong.push(name + ": " + (e.textContent || e.getAttribute("d").slice(0, 30)) + " sticks out");
		}
		for (let i = 0; i < texts.length; i++) for (let j = 0; j < i; j++) {
			const [a, x] = texts[i], [b, y] = texts[j];
			const wide = Math.min(x.right, y.right) - Math.max(x.left, y.left);
			const high = Math.min(x.bottom, y.bottom) - Math.max(x.top, y.top);
			// Boxes of text have room above and below the letters.
			if (wide > 0.5 && high > 0.3 * Math.min(x.height, y.height)) wrong.push(name + ": '" + a.textContent + "' lies on '" + b.textContent + "'");
		}
	}
	return wrong;
})()`

// blank is a script that returns the sections that leave the right third of the page blank.
const blank = `[...document.querySelectorAll("section")].filter(s =>
	Math.max(...[...s.querySelectorAll("svg, table")].map(e => e.getBoundingClientRect().right)) < document.documentElement.clientWidth * 2 / 3).map(s => s.id)`

// paper is a script that returns the colours of the page's paper and of its first text.
const paper = `[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.querySelector("h1")).color]`

func TestPageInBrowser(t *testing.T) {
	tab := browser(t)
	folder := t.ArtifactDir()
	var heard complaints
	heard.listen(t, tab)
	// One service, for it takes time; two are in the hostile report.
	whole := sample(t)
	whole.Runs = slices.DeleteFunc(whole.Runs, func(r report.Run) bool { return r.Service[0] == 'm' })
	one := sample(t)
	one.Runs = one.Runs[:1]
	one.Growth, one.Simulation = nil, nil
	for _, c := range []struct {
		name  string
		r     report.Report
		whole bool // it has enough to fill a page
	}{{"report", whole, true}, {"hostile", hostile(t), false}, {"empty", report.Report{}, false}, {"one-run", one, false}, {"failed", failedRuns(t), false}} {
		t.Run(c.name, func(t *testing.T) {
			var html bytes.Buffer
			if err := Write(&html, c.r); err != nil {
				t.Fatal(err)
			}
			do(t, tab, chromedp.Navigate(keep(t, filepath.Join(folder, c.name+".html"), html.Bytes())))
			for _, e := range eyes {
				lookAt(t, tab, e)
				if c.whole {
					if sections := get(t, tab, chromedp.Evaluate[[]string](blank)); e.width >= 1200 && len(sections) > 0 {
						t.Errorf("%s: %q leave the right third of the page blank", e.name, sections)
					}
				}
				if seen() {
					keep(t, filepath.Join(folder, c.name+"-"+e.name+".png"), get(t, tab, shot))
				}
			}
			for _, complaint := range heard.take() {
				t.Error(complaint)
			}
		})
	}
}

// seen tells whether somebody will look at pictures, which take most of the time: go test
// -artifacts keeps them.
func seen() bool { return flag.Lookup("test.artifacts").Value.String() == "true" }

// lookAt shows the page to an eye, and reports what it does not like.
func lookAt(t *testing.T, tab context.Context, e eye) {
	wrong := show(t, tab, e)
	colours := get(t, tab, chromedp.Evaluate[[]string](paper))
	for _, w := range wrong {
		t.Errorf("%s: %s", e.name, w)
	}
	want := []string{"rgb(255, 254, 251)", "rgb(31, 29, 26)"}
	if strings.HasSuffix(e.name, "dark") {
		want = []string{"rgb(23, 24, 27)", "rgb(235, 232, 226)"}
	}
	if fmt.Sprint(colours) != fmt.Sprint(want) {
		t.Errorf("%s: paper and ink are %v, want %v", e.name, colours, want)
	}
}

// TestChartsInBrowser opens each picture by itself, light and dark.
func TestChartsInBrowser(t *testing.T) {
	tab := browser(t)
	folder := t.ArtifactDir()
	charts := Charts(sample(t))
	if len(charts) == 0 {
		t.Fatal("no pictures")
	}
	var heard complaints
	heard.listen(t, tab)
	for name, svg := range charts {
		t.Run(name, func(t *testing.T) {
			do(t, tab, chromedp.Navigate(keep(t, filepath.Join(folder, name), svg)))
			for _, e := range eyes[6:8] { // 1200 px, light and dark
				for _, w := range show(t, tab, e) {
					t.Errorf("%s: %s", e.name, w)
				}
				if seen() {
					keep(t, filepath.Join(folder, strings.TrimSuffix(name, ".svg")+"-"+e.name+".png"), get(t, tab, chromedp.CaptureScreenshot()))
				}
			}
			for _, complaint := range heard.take() {
				t.Error(complaint)
			}
		})
	}
}

// TestBrowserFindsFaults holds that the checks bite.
func TestBrowserFindsFaults(t *testing.T) {
	tab := browser(t)
	address := keep(t, filepath.Join(t.TempDir(), "bad.html"), []byte(`<!DOCTYPE html><title>bad</title><h1>bad</h1>
<main style="width:3000px">wide</main>
<div id="glance"><div class="scroll" aria-label="cut" style="width:90px;overflow:auto"><table style="width:130px"><thead><tr><th style="width:100px">1</th><th>second</th></tr></thead></table></div></div><svg width="0" height="0"></svg>
<svg viewBox="0 0 100 50" width="100" height="50"><text x="90" y="20">sticks out far</text><text x="10" y="20">one</text><text x="12" y="21">two</text></svg>
<script>console.error("loud"); fetch("http://127.0.0.1:1/nothing").catch(() => {}); throw new Error("thrown")</script>`))
	var heard complaints
	heard.listen(t, tab)
	do(t, tab, chromedp.Navigate(address))
	wrong := show(t, tab, eyes[len(eyes)-2]) // 1600 px
	all := strings.Join(append(wrong, heard.take()...), "\n")
	for _, want := range []string{"px wide", "an empty picture", "sticks out", "'two' lies on 'one'",
		"cut: nothing shows", "'second' is out of sight", "console.error", "request: http://127.0.0.1:1/nothing", "thrown"} {
		if !strings.Contains(all, want) {
			t.Errorf("no complaint about %q in:\n%s", want, all)
		}
	}
}

// show makes the tab what the eye looks at, and returns the faults.
func show(t *testing.T, tab context.Context, e eye) []string {
	t.Helper()
	do(t, tab,
		chromedp.EmulateViewport(e.width, e.height, func(p *emulation.SetDeviceMetricsOverrideParams, _ *emulation.SetTouchEmulationEnabledParams) {
			p.Mobile = e.width < 600
		}),
		chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
			_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: e.media,
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: e.scheme}}})
			return err
		}),
	)
	return get(t, tab, chromedp.Evaluate[[]string](faults))
}

// shot is a picture of the whole page. To encode it quickly saves most of the time: it
// is higher than twenty windows.
func shot(ctx context.Context, target *chromedp.Target) ([]byte, error) {
	yes := true
	r, err := cdp.Call(ctx, target, page.CaptureScreenshot, page.CaptureScreenshotParams{CaptureBeyondViewport: &yes, OptimizeForSpeed: &yes})
	return r.Data, err
}

func do(t *testing.T, tab context.Context, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(tab, actions...); err != nil {
		t.Fatal(err)
	}
}

func get[T any](t *testing.T, tab context.Context, action chromedp.Action[T]) T {
	t.Helper()
	value, err := chromedp.Run(tab, action)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// keep writes a file and returns its URL.
func keep(t *testing.T, path string, data []byte) string {
	t.Helper()
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}
