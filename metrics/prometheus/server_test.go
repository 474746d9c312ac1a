package electorprom_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/measure"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
)

// promtool runs the promtool of Prometheus on text, and returns its output. It fails if the program fails.
func promtool(t *testing.T, text string, args ...string) string {
	t.Helper()
	servertest.Long(t, "promtool")
	path := must.Get(servertest.FindProgram("promtool", "prometheus"))(t)
	cmd := exec.Command(path, args...)
	cmd.Stdin = strings.NewReader(text)
	said, err := cmd.CombinedOutput()
	require.NoError(t, err, string(said))
	return string(said)
}

// alerts returns the names of the rules.
func alerts(t *testing.T) (names []string) {
	t.Helper()
	var file struct {
		Groups []struct{ Rules []struct{ Alert string } }
	}
	require.NoError(t, yaml.Unmarshal(must.Get(os.ReadFile("alerts.yml"))(t), &file))
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			names = append(names, rule.Alert)
		}
	}
	require.NotEmpty(t, names)
	return names
}

// The alerts are valid, and each is tested with series that make it fire, and with some that do not.
func TestAlerts(t *testing.T) {
	promtool(t, "", "check", "rules", "alerts.yml")
	promtool(t, "", "test", "rules", "alerts_test.yml")
	var file struct {
		Tests []struct {
			Tests []struct {
				Alert    string `yaml:"alertname"`
				Expected []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	require.NoError(t, yaml.Unmarshal(must.Get(os.ReadFile("alerts_test.yml"))(t), &file))
	fires, silent := make(map[string]bool), make(map[string]bool)
	for _, group := range file.Tests {
		for _, test := range group.Tests {
			fires[test.Alert] = fires[test.Alert] || len(test.Expected) > 0
			silent[test.Alert] = silent[test.Alert] || len(test.Expected) == 0
		}
	}
	for _, name := range alerts(t) {
		assert.True(t, fires[name], "%s: no test makes it fire", name)
		assert.True(t, silent[name], "%s: in no test it is silent", name)
	}
}

// The page for operators has each metric and each alert.
func TestObservabilityPage(t *testing.T) {
	text := must.Get(os.ReadFile("../../docs/observability.md"))(t)
	page := string(text)
	for _, m := range measure.All {
		name := m.PrometheusName()
		if m.Label != "" {
			name += "{" + m.Label + "}"
		}
		assert.Contains(t, page, "`"+name+"`")
	}
	for _, name := range alerts(t) {
		assert.Contains(t, page, "| `"+name+"` |")
	}
}

var metricName = regexp.MustCompile(`\belector_[a-z_]+`)

// bases returns the names in a query, without the suffixes that histograms add.
func bases(query string) (names []string) {
	for _, name := range metricName.FindAllString(query, -1) {
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			name = strings.TrimSuffix(name, suffix)
		}
		names = append(names, name)
	}
	return names
}

// The alerts and the dashboard name only existing metrics, and the dashboard shows all.
func TestNames(t *testing.T) {
	var known []string
	for _, m := range measure.All {
		known = append(known, m.PrometheusName())
	}
	rules := must.Get(os.ReadFile("alerts.yml"))(t)
	board := must.Get(os.ReadFile("dashboard.json"))(t)
	for _, name := range slices.Concat(bases(string(rules)), bases(string(board))) {
		assert.Contains(t, known, name)
	}
	for _, name := range known {
		assert.Contains(t, bases(string(board)), name)
	}
}

// dashboard returns the queries that Grafana would send to Prometheus, with its variables filled in.
func dashboard(t *testing.T) (queries []string) {
	t.Helper()
	text := must.Get(os.ReadFile("dashboard.json"))(t)
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
		Annotations struct{ List []struct{ Expr string } }
		Templating  struct {
			List []struct {
				Type  string
				Query any
			}
		}
	}
	require.NoError(t, json.Unmarshal(text, &board))
	fill := strings.NewReplacer("$__rate_interval", "1m", "$__range", "1h", "$job", ".*", "$election", ".*")
	for _, panel := range board.Panels {
		require.NotEmpty(t, panel.Targets, panel.Title)
		for _, target := range panel.Targets {
			queries = append(queries, fill.Replace(target.Expr))
		}
	}
	for _, annotation := range board.Annotations.List {
		queries = append(queries, fill.Replace(annotation.Expr))
	}
	values := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)
	for _, variable := range board.Templating.List {
		if variable.Type == "query" {
			query := fmt.Sprint(variable.Query.(map[string]any)["query"])
			require.Regexp(t, values, query)
			queries = append(queries, "group by ("+values.ReplaceAllString(query, "$2) ($1)"))
			queries[len(queries)-1] = fill.Replace(queries[len(queries)-1])
		}
	}
	for _, query := range queries {
		require.NotContains(t, query, "$")
	}
	return queries
}

// A sample is one sample of a query's answer.
type sample struct {
	Metric map[string]string
	Value  [2]any // the time, and the number as text
}

func ask(t *testing.T, p *servertest.Server, query string) []sample {
	t.Helper()
	var answer struct {
		Data struct{ Result []sample }
	}
	require.NoError(t, servertest.Get(wait.Patience, "http://"+p.Addr()+"/api/v1/query?"+url.Values{"query": {query}}.Encode(), &answer), query)
	return answer.Data.Result
}

// startPrometheus starts a server with the text of a configuration file, in which paths are absolute.
func startPrometheus(config string) (*servertest.Server, error) {
	path, err := servertest.FindProgram("prometheus", "prometheus")
	if err != nil {
		return nil, err
	}
	file := func(s *servertest.Server) string { return filepath.Join(s.Dir(), "prometheus.yml") }
	return servertest.StartProgram(servertest.Program{
		Name: "Prometheus", Path: path,
		Args: func(s *servertest.Server) []string {
			return []string{"--config.file=" + file(s), "--storage.tsdb.path=" + s.DataDir(), "--web.listen-address=" + s.Addr()}
		},
		Prepare: func(s *servertest.Server) error { return os.WriteFile(file(s), []byte(config), 0o644) },
		Probe: func(s *servertest.Server, timeout time.Duration) error {
			return servertest.Get(timeout, "http://"+s.Addr()+"/-/ready", nil)
		},
	})
}

// A real Prometheus scrapes two candidates: each query of the dashboard has an answer, and the alert fires
// when nobody leads, and ends when somebody leads again.
func TestPrometheus(t *testing.T) {
	servertest.Long(t, "Prometheus")
	service := memory.New(memory.Options{DefaultTTL: 10 * time.Second})
	var targets []string
	var running sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	for _, id := range []string{"a", "b"} {
		e, registry := instrumented(t, service.Client(id), id, nil)
		exporter := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
		t.Cleanup(exporter.Close)
		targets = append(targets, strings.TrimPrefix(exporter.URL, "http://"))
		running.Go(func() {
			_ = elector.Run(ctx, e, func(ctx context.Context, term *elector.Term) error {
				for ctx.Err() == nil {
					_, _ = term.Commit(ctx, elector.Put("/state", nil)) // so that its outcome is measured
					time.Sleep(50 * time.Millisecond)
				}
				return nil
			})
		})
	}
	t.Cleanup(running.Wait)
	t.Cleanup(stop)

	// The rules with shorter times.
	text := must.Get(os.ReadFile("alerts.yml"))(t)
	rules := filepath.Join(t.TempDir(), "alerts.yml")
	fast := strings.Replace(string(text), "(elector_leaderless_seconds) > 60\n        for: 30s", "(elector_leaderless_seconds) > 2\n        for: 1s", 1)
	require.NotEqual(t, string(text), fast)
	require.NoError(t, os.WriteFile(rules, []byte(fast), 0o644))
	p, err := startPrometheus(fmt.Sprintf(`
global: {scrape_interval: 250ms, evaluation_interval: 250ms}
rule_files: [%q]
scrape_configs:
  - job_name: jobs
    static_configs: [{targets: [%q, %q]}]
`, rules, targets[0], targets[1]))
	servertest.CloseAfterTest(t, err, p)

	firing := func() []sample { return ask(t, p, `ALERTS{alertname="ElectorNoLeader", alertstate="firing"}`) }
	ready := func() bool {
		led := ask(t, p, `sum by (job, election) (elector_is_leader) == 1 and min by (job, election) (elector_leaderless_seconds) < 1`)
		return len(led) == 1 && led[0].Metric["election"] == "/jobs/reindex" && led[0].Metric["job"] == "jobs" && len(firing()) == 0
	}
	// On a busy machine a scrape may be late, and then its target has no series for a moment.
	wait.For(t, "a leader", ready)
	wait.For(t, "one behind it", func() bool { return len(ask(t, p, `elector_place == 2`)) == 1 })
	assert.Len(t, ask(t, p, `ALERTS{alertstate="firing"}`), 0, "all is well")

	service.Stop()
	var alarm []sample
	wait.For(t, "the alert", func() bool { alarm = firing(); return len(alarm) == 1 })
	assert.Equal(t, "critical", alarm[0].Metric["severity"])
	assert.Equal(t, "/jobs/reindex", alarm[0].Metric["election"])
	for _, query := range dashboard(t) {
		// Nobody leads, and nobody stands.
		if !strings.Contains(query, "== 1") && !strings.HasPrefix(query, "elector_place") {
			wait.For(t, query, func() bool { return len(ask(t, p, query)) > 0 })
		}
	}
	service.Start()
	wait.For(t, "a leader again", ready)
	for _, query := range dashboard(t) {
		if !strings.HasPrefix(query, "ALERTS") {
			wait.For(t, query, func() bool { return len(ask(t, p, query)) > 0 })
		}
	}
}
