package proxytest

import (
	"testing"
	"time"
)

// Jitter is that of the proxies that ForTest starts, see Proxy.Delay. It must not be
// set while tests run.
var Jitter time.Duration

// ForTest starts a proxy that is closed when the test ends.
func ForTest(tb testing.TB, target string) *Proxy {
	tb.Helper()
	p, err := New(target)
	if err != nil {
		tb.Fatal(err)
	}
	p.Delay(0, Jitter)
	tb.Cleanup(func() {
		if err := p.Close(); err != nil {
			tb.Errorf("close proxy: %v", err)
		}
	})
	return p
}
