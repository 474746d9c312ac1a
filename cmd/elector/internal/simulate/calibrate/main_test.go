package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/elector-go/elector/cmd/elector/internal/report"
	"github.com/elector-go/elector/cmd/elector/internal/simulate"
)

func write(t *testing.T, r report.Report) string {
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "report.json")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestPrintsTheModel(t *testing.T) {
	measured := func(service string, n int, ms time.Duration) report.Run {
		return report.Run{Service: service, Strategy: "unfair", N: n, Resigned: report.Leaderless{Quantiles: report.Quantiles{N: 5, P50: ms * time.Millisecond, P90: ms * time.Millisecond}}}
	}
	name := write(t, report.Report{Schema: report.Schema, Runs: []report.Run{measured("zk://a", 3, 2), measured("zk://a", 100, 8), measured(simulate.Service, 100, 900)}})
	more := write(t, report.Report{Schema: report.Schema, Runs: []report.Run{measured("zk://a", 1000, 70)}})
	var out bytes.Buffer
	if err := run([]string{name, more}, &out); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"var Default = report.Model{\n\tRoundTrip: ", " * time.Nanosecond,\n", "3 runs on zk://a", "unfair             3  measured 2ms"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("no %q in\n%s", part, &out)
		}
	}
}

func TestErrors(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, files := range map[string][]string{
		"give the files":  nil,
		"no such file":    {filepath.Join(t.TempDir(), "none")},
		"is no report":    {text},
		"has schema 0":    {write(t, report.Report{})},
		"no measured run": {write(t, report.Report{Schema: report.Schema})},
	} {
		if err := run(files, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", files, err, want)
		}
	}
}
