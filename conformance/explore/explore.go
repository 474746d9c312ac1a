package explore

import (
	"testing"
	"time"
)

// Exhaustive explores all schedules of cfg, or as many as its budget allows, and
// fails t with the first that breaks a rule. It must not be called in a bubble of
// testing/synctest.
func Exhaustive(t *testing.T, cfg Config) Report {
	t.Helper()
	r := exhaustive(t, cfg)
	if r.Failure != nil {
		t.Error(r.Failure)
	}
	t.Log(r)
	return r
}

func exhaustive(t *testing.T, cfg Config) Report {
	s := search{t: t, cfg: cfg.withDefaults(), began: time.Now()}
	s.run()
	s.report.Elapsed = time.Since(s.began)
	return s.report
}
