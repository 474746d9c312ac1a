package proxytest

import (
	"testing"
	"time"
)

// Jitter is that of the proxies that are started for tests, see Proxy.Delay. It must not be
// set while tests run.
var Jitter time.Duration

// ForTest starts a proxy that is closed when the test ends.
func ForTest(tb testing.TB, target string) *Proxy {
	tb.Helper()
	return forTest(tb, target, func(*Proxy) {})
}

// ZooKeeperForTest is ForTest for a proxy to a ZooKeeper server, for its clients alone. It keeps
// to rules that it shares with other proxies beside its own.
func ZooKeeperForTest(tb testing.TB, target string, shared ...*Rules) *Proxy {
	tb.Helper()
	return forTest(tb, target, func(p *Proxy) { p.zooKeeper = append([]*Rules{&p.Rules}, shared...) })
}

func forTest(tb testing.TB, target string, prepare func(*Proxy)) *Proxy {
	tb.Helper()
	p, err := start(target, prepare)
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
