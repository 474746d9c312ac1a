// Package dial turns the -backend flag of the examples into a backend.
package dial

import (
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/backend/zookeeper"
)

// Usage explains the flag.
const Usage = "coordination service: mem:// or zk://host:port[,host:port...][/path][?timeout=10s]"

// Open returns the backend that a URL names, and the path in it: an election to
// take part in, "" if the URL has none. Nothing is connected yet.
func Open(raw string, log *slog.Logger) (backend.Backend, string, error) {
	scheme, rest, found := strings.Cut(raw, "://")
	if !found {
		return nil, "", fmt.Errorf("backend %q is not a URL: %s", raw, Usage)
	}
	switch scheme {
	case "mem":
		if rest != "" {
			return nil, "", fmt.Errorf("backend %q: mem:// takes no host or path", raw)
		}
		return memory.New(memory.Options{}), "", nil
	case "zk":
		return zk(raw, rest, log)
	}
	return nil, "", fmt.Errorf("backend %q: unknown scheme %q: %s", raw, scheme, Usage)
}

func zk(raw, rest string, log *slog.Logger) (backend.Backend, string, error) {
	rest, query, _ := strings.Cut(rest, "?")
	hosts, path, slash := strings.Cut(rest, "/")
	if slash {
		path = "/" + path
	}
	cfg := zookeeper.Config{Servers: strings.Split(hosts, ","), Logger: log}
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, "", fmt.Errorf("backend %q: %w", raw, err)
	}
	for name, value := range values {
		if name != "timeout" {
			return nil, "", fmt.Errorf("backend %q: unknown parameter %q: there is timeout only", raw, name)
		}
		if cfg.SessionTimeout, err = time.ParseDuration(value[0]); err != nil {
			return nil, "", fmt.Errorf("backend %q: timeout: %w", raw, err)
		}
	}
	b, err := zookeeper.New(cfg)
	if err != nil {
		return nil, "", err // a nil *Backend must not become a non-nil interface
	}
	return b, path, nil
}
