// Package browsertest looks at pages in a headless Chromium.
package browsertest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
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
	"github.com/stretchr/testify/require"
)

// Open starts a headless Chromium, and returns a context in which chromedp drives it. The browser ends with
// the test. With go test -short the test is skipped.
func Open(t *testing.T) context.Context {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes a browser: make test-all")
	}
	path, err := findBrowser(exec.LookPath)
	require.NoError(t, err)
	data, err := os.MkdirTemp("", "browser-")
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := os.RemoveAll(data); err != nil {
			t.Log(err) // a process of the browser may still write there
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
	Do(t, ctx) // starts it
	// Close the browser and wait for it, so that the folder of its data can be removed.
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
	return "", errors.New("no Chromium here, and these tests look at the page in a browser: 'make setup-all' installs it, or says what to install")
}

// An Eye is a way to look at a page.
type Eye struct {
	Name          string
	Width, Height int64
	scheme, media string
}

// Eyes are narrow and wide, light and dark, and one that prints.
var Eyes = func() (all []Eye) {
	for _, width := range []int64{360, 400, 800, 1200, 1600} {
		for _, scheme := range []string{"light", "dark"} {
			all = append(all, Eye{fmt.Sprintf("%d-%s", width, scheme), width, 900, scheme, "screen"})
		}
	}
	return append(all, Eye{"print", 720, 1000, "dark", "print"}) // paper is white
}()

// Complaints are the browser's complaints about a page, and what it tried to load.
type Complaints struct {
	mu  sync.Mutex
	all []string
}

// Listen begins to collect. When a command is answered, everything that the page caused before is collected.
func (c *Complaints) Listen(t *testing.T, tab context.Context) {
	t.Helper()
	require.NoError(t, chromedp.Listen(tab, func(ev any) {
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
			// The page itself and what is in it need none.
			if u := ev.Request.URL; ev.Type != network.ResourceTypeDocument && !strings.HasPrefix(u, "data:") {
				c.all = append(c.all, "request: "+u)
			}
		case *network.EventLoadingFailed:
			c.all = append(c.all, "request failed: "+ev.ErrorText)
		}
	}))
}

// Take returns what was collected, and forgets it.
func (c *Complaints) Take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.all
	c.all = nil
	return all
}

// faults is a script that returns what is wrong with the visible page.
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

// Seen reports whether somebody will look at pictures, which take most of the time: go test -artifacts keeps
// them.
func Seen() bool { return flag.Lookup("test.artifacts").Value.String() == "true" }

// Show sets the tab up for the Eye, and returns the faults.
func Show(t *testing.T, tab context.Context, e Eye) []string {
	t.Helper()
	Do(t, tab,
		chromedp.EmulateViewport(e.Width, e.Height, func(p *emulation.SetDeviceMetricsOverrideParams, _ *emulation.SetTouchEmulationEnabledParams) {
			p.Mobile = e.Width < 600
		}),
		chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
			_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: e.media,
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: e.scheme}}})
			return err
		}),
	)
	return Get(t, tab, chromedp.Evaluate[[]string](faults))
}

// Shot returns a picture of the whole page. Fast encoding saves most of the time: the page is higher than
// twenty windows.
func Shot(ctx context.Context, target *chromedp.Target) ([]byte, error) {
	yes := true
	r, err := cdp.Call(ctx, target, page.CaptureScreenshot, page.CaptureScreenshotParams{CaptureBeyondViewport: &yes, OptimizeForSpeed: &yes})
	return r.Data, err
}

// Do makes the browser perform actions.
func Do(t *testing.T, tab context.Context, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	require.NoError(t, chromedp.Do(tab, actions...))
}

// Get is Do with a result.
func Get[T any](t *testing.T, tab context.Context, action chromedp.Action[T]) T {
	t.Helper()
	value, err := chromedp.Run(tab, action)
	require.NoError(t, err)
	return value
}

// Keep writes a file and returns its URL.
func Keep(t *testing.T, path string, data []byte) string {
	t.Helper()
	require.NoError(t, os.WriteFile(path, data, 0o666))
	return (&url.URL{Scheme: "file", Path: path}).String()
}
