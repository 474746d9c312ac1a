package servertest

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPrometheusLifecycle(t *testing.T) {
	t.Parallel() // it mostly waits
	p := PrometheusForTest(t, PrometheusConfig{Config: "global: {scrape_interval: 17s}"})
	var config struct{ YAML string }
	require.NoError(t, p.Ask("status/config", nil, &config))
	assert.Contains(t, config.YAML, "scrape_interval: 17s")
	require.NoError(t, p.Restart())
	assert.Error(t, p.Ask("query", url.Values{"query": {"sum("}}, &config), "a query that is wrong")
}

func TestPrometheusStartFailureShowsTheLog(t *testing.T) {
	Long(t, "Prometheus")
	_, err := StartPrometheus(PrometheusConfig{Config: "no_such_key: 1"})
	checkStartFailure(t, err, "no_such_key")
}
