package measure

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/election"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/strategy/fair"
)

// counts is a Sink: it has how often each metric was counted, and the last duration.
type counts struct {
	mu   sync.Mutex
	n    map[string]int
	took map[string]time.Duration
}

func key(m *Metric, label string) string {
	if label != "" {
		label = " " + label
	}
	return m.PrometheusName() + label
}

func (c *counts) Add(m *Metric, label string) { c.add(m, label, 0) }

func (c *counts) Record(_ context.Context, m *Metric, label string, took time.Duration) {
	c.add(m, label, took)
}

func (c *counts) add(m *Metric, label string, took time.Duration) {
	if label != "" && !slices.Contains(m.Values, label) || label == "" && m.Label != "" {
		panic(fmt.Sprintf("%s: label %q", m.Name, label))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[key(m, label)]++
	c.took[key(m, label)] = took
}

// take returns the counts since the last call.
func (c *counts) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.n
	c.n = make(map[string]int)
	return n
}

// A watched is an elector on memory with its observer.
type watched struct {
	elector.Elector
	*counts
	o      *Observer
	client *memory.Client
}

func watch(t *testing.T, service *memory.Service, id string, set ...func(*elector.Config)) *watched {
	t.Helper()
	w := &watched{counts: &counts{n: make(map[string]int), took: make(map[string]time.Duration)}, client: service.Client(id)}
	w.o = New(w.counts)
	cfg := elector.Config{Backend: w.client, Strategy: fair.Strategy{}, Election: "/e", ID: id, Hooks: w.o.Hooks()}
	for _, f := range set {
		f(&cfg)
	}
	w.o.Read(func(m *Metric, _ string, _ float64) { t.Errorf("%s is read before Follow", m.Name) })
	w.Elector = must.Get(elector.New(cfg))(t)
	w.o.Follow(w)
	t.Cleanup(func() { assert.NoError(t, w.Close(context.Background())) })
	return w
}

// read returns the values of gauges; of those with a label, the ones that hold.
func (w *watched) read() map[string]float64 {
	all := make(map[string]float64)
	w.o.Read(func(m *Metric, label string, value float64) {
		if label == "" || value != 0 {
			all[key(m, label)] = value
		}
	})
	return all
}

// A candidate's actions are counted under the right labels, from its first campaign to its close.
func TestCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		w := watch(t, service, "a")
		service.Stop()
		time.AfterFunc(20*time.Millisecond, service.Start)
		began := time.Now()
		term := must.Get(w.Campaign(t.Context()))(t)
		took := time.Since(began)
		synctest.Wait()
		n := w.take()
		tries := n["elector_campaign_attempts_total"]
		assert.Greater(t, tries, 1)
		assert.Equal(t, map[string]int{
			"elector_campaign_attempts_total":             tries,
			"elector_campaign_failures_total unavailable": tries - 1,
			"elector_retries_total campaign":              tries - 1,
			"elector_campaign_duration_seconds elected":   1,
			"elector_terms_total":                         1,
			"elector_sessions_total":                      1,
		}, n)
		assert.Equal(t, took, w.took["elector_campaign_duration_seconds elected"])

		must.Get(term.Commit(t.Context(), elector.Put("/k", nil)))(t)
		require.ErrorIs(t, must.Err(term.Commit(t.Context(), elector.Create("/k", nil))), elector.ErrConflict)
		must.Get(election.Ask(t.Context(), service, fair.Strategy{}, "/e", election.Request{}))(t)
		<-term.Asked()
		w.client.Suspend()
		synctest.Wait()
		w.client.Resume()
		synctest.Wait()
		w.client.Expire()
		<-term.Context().Done()
		synctest.Wait()
		require.ErrorIs(t, must.Err(term.Commit(t.Context(), elector.Put("/k", nil))), elector.ErrDeposed)
		assert.Equal(t, map[string]int{
			"elector_commit_duration_seconds ok":       1,
			"elector_commit_duration_seconds conflict": 1,
			"elector_commit_duration_seconds deposed":  1,
			"elector_step_down_requests_total":         1,
			"elector_session_suspensions_total":        1,
			"elector_session_losses_total":             1,
			"elector_term_ends_total session_lost":     1,
		}, w.take())

		service.Stop()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		require.Error(t, must.Err(w.Campaign(ctx)))
		service.Start()
		n = w.take()
		assert.Equal(t, 1, n["elector_campaign_duration_seconds cancelled"])

		must.Get(w.Campaign(t.Context()))(t)
		synctest.Wait() // for the hook of the session
		w.take()
		require.NoError(t, w.Close(t.Context()))
		assert.Equal(t, map[string]int{"elector_term_ends_total closed": 1}, w.take(), "a session that was closed is not lost")
	})
}

// Retries of lead and standing aside are counted.
func TestCountsOfTheApplication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var unfit error
		w := watch(t, memory.New(memory.Options{}), "a", func(c *elector.Config) {
			c.Fit = elector.Fit{Check: func(context.Context) error { return unfit }}
		})
		turns := 0
		err := elector.Run(t.Context(), w, func(context.Context, *elector.Term) error {
			if turns++; turns == 1 {
				return errors.New("secret of the application")
			}
			return nil
		})
		require.NoError(t, err)
		synctest.Wait() // for the hook of the last term's end
		n := w.take()
		assert.Equal(t, 1, n["elector_retries_total lead"])
		assert.Equal(t, 2, n["elector_term_ends_total resigned"])

		unfit = errors.New("disk full")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.Error(t, must.Err(w.Campaign(ctx)))
		n = w.take()
		assert.Equal(t, 1, n["elector_stand_asides_total unfit"])
		assert.Equal(t, 1, n["elector_campaign_duration_seconds cancelled"])
	})
}

// Gauges show a leader, the candidate behind it, a candidate without a link, and a lead function that runs
// on.
func TestReadings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		a, b := watch(t, service, "a"), watch(t, service, "b")
		time.Sleep(time.Minute)
		assert.Equal(t, map[string]float64{
			"elector_role idle": 1, "elector_is_leader": 0, "elector_leaderless_seconds": 60, "elector_term_overrun_seconds": 0,
		}, a.read())

		runs := make(chan struct{})
		leading := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			err := elector.Run(ctx, a, func(context.Context, *elector.Term) error { close(leading); <-runs; return nil })
			assert.ErrorIs(t, err, context.Canceled)
		})
		<-leading
		bctx, stop := context.WithCancel(t.Context())
		running.Go(func() { _, _ = b.Campaign(bctx) })
		time.Sleep(time.Minute)
		got := a.read()
		assert.Equal(t, 1.0, got["elector_is_leader"])
		assert.Equal(t, 1.0, got["elector_role leading"])
		assert.Equal(t, 1.0, got["elector_session_state live"])
		assert.Equal(t, 1.0, got["elector_place"])
		assert.Zero(t, got["elector_leaderless_seconds"])
		assert.Positive(t, got["elector_session_trust_remaining_seconds"])
		got = b.read()
		assert.Zero(t, got["elector_is_leader"])
		assert.Equal(t, 1.0, got["elector_role standing"])
		assert.Equal(t, 2.0, got["elector_place"])
		assert.Less(t, got["elector_leaderless_seconds"], 10.0)
		assert.Equal(t, got["elector_leader_knowledge_age_seconds"], got["elector_leaderless_seconds"])

		a.client.Suspend()
		time.Sleep(time.Minute)
		got = a.read()
		assert.Equal(t, 1.0, got["elector_role leaving"])
		assert.Equal(t, 1.0, got["elector_session_state lost"])
		assert.Zero(t, got["elector_session_trust_remaining_seconds"])
		assert.Zero(t, got["elector_is_leader"])
		assert.Greater(t, got["elector_term_overrun_seconds"], 45.0)
		assert.Less(t, got["elector_term_overrun_seconds"], 60.0)
		assert.InDelta(t, got["elector_term_overrun_seconds"], got["elector_leaderless_seconds"], 1)
		assert.Equal(t, 1.0, b.read()["elector_is_leader"])
		cancel()
		close(runs)
		stop()
		a.client.Resume()
		running.Wait()
	})
}

// Each metric has a label with values or none, and its name follows the conventions.
func TestMetrics(t *testing.T) {
	require.NotEmpty(t, All)
	seen := make(map[string]bool)
	for _, m := range All {
		assert.False(t, seen[m.Name], m.Name)
		seen[m.Name] = true
		assert.Regexp(t, `^elector(\.[a-z_]+)+$`, m.Name)
		assert.Regexp(t, `^(s|\{[a-z]+\})$`, m.Unit)
		assert.NotEmpty(t, m.Help)
		assert.Equal(t, m.Label == "", len(m.Values) == 0, m.Name)
		assert.Equal(t, m.Kind == Histogram, len(m.Buckets) > 0, m.Name)
		assert.True(t, slices.IsSorted(m.Buckets), m.Name)
		for name := range seen { // OpenTelemetry: no metric's name is a namespace of another's
			assert.NotContains(t, m.Name, name+".")
			assert.NotContains(t, name, m.Name+".")
		}
	}
}

// An error of several classes gets the label that says most.
func TestLabels(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Cause(fmt.Errorf("%w: %w", elector.ErrResigned, elector.ErrAsked)), "asked"},
		{Cause(errors.New("x")), "other"},
		{Reason(fmt.Errorf("no session: %w: %w", backend.ErrUnavailable, context.DeadlineExceeded)), "unavailable"},
		{Reason(errors.Join(elector.ErrUnfit, context.Canceled)), "unfit"},
		{Reason(context.Canceled), "cancelled"},
		{CommitOutcome(nil), "ok"},
		{CommitOutcome(fmt.Errorf("%w: %w", elector.ErrDeposed, elector.ErrSessionLost)), "deposed"},
		{CommitOutcome(fmt.Errorf("%w (the term has ended: %v)", elector.ErrIndeterminate, elector.ErrDeposed)), "indeterminate"},
		{CommitOutcome(errors.New("x")), "other"},
	} {
		assert.Equal(t, c.want, c.got)
	}
	assert.Equal(t, []string{"live", "suspended", "lost"}, states)
	assert.Equal(t, []string{"campaign", "observe", "publish", "lead"}, works)
	assert.Len(t, roles, 6)
}

// Each hook is handled: a new one is counted, or left out on purpose.
func TestHooks(t *testing.T) {
	hooks := reflect.ValueOf(New(nil).Hooks())
	for i := range hooks.NumField() {
		assert.False(t, hooks.Field(i).IsNil(), hooks.Type().Field(i).Name)
	}
}
