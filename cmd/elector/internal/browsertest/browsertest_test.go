package browsertest

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
)

// TestNoBrowserFails holds that a missing browser is an error.
func TestNoBrowserFails(t *testing.T) {
	_, err := findBrowser(func(string) (string, error) { return "", exec.ErrNotFound })
	assert.ErrorContains(t, err, "make setup")
}

// TestBrowserFindsFaults holds that the checks find faults.
func TestBrowserFindsFaults(t *testing.T) {
	tab := Open(t)
	address := Keep(t, filepath.Join(t.TempDir(), "bad.html"), []byte(`<!DOCTYPE html><title>bad</title><h1>bad</h1>
<main style="width:3000px">wide</main>
<div id="glance"><div class="scroll" aria-label="cut" style="width:90px;overflow:auto"><table style="width:130px"><thead><tr><th style="width:100px">1</th><th>second</th></tr></thead></table></div></div><svg width="0" height="0"></svg>
<svg viewBox="0 0 100 50" width="100" height="50"><text x="90" y="20">sticks out far</text><text x="10" y="20">one</text><text x="12" y="21">two</text></svg>
<script>console.error("loud"); fetch("http://127.0.0.1:1/nothing").catch(() => {}); throw new Error("thrown")</script>`))
	var heard Complaints
	heard.Listen(t, tab)
	Do(t, tab, chromedp.Navigate(address))
	wrong := Show(t, tab, Eyes[len(Eyes)-2]) // 1600 px
	all := strings.Join(append(wrong, heard.Take()...), "\n")
	for _, want := range []string{"px wide", "an empty picture", "sticks out", "'two' lies on 'one'",
		"cut: nothing shows", "'second' is out of sight", "console.error", "request: http://127.0.0.1:1/nothing", "thrown"} {
		assert.Contains(t, all, want)
	}
}
