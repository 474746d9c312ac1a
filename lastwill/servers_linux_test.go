package lastwill_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/dial"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/services"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/lastwill"
	"github.com/elector-go/elector/strategy/fair"
)

const urlVar = "LASTWILL_TEST_URL"

func dialed() (backend.Backend, error) { return dial.Open(context.Background(), os.Getenv(urlVar)) }

// leader is a process that leads until it is killed.
func leader() {
	ready := make(chan lastwill.Event, 100)
	b, err := lastwill.Start(dialed, lastwill.Options{Agent: os.Getenv(agentVar), OnEvent: func(e lastwill.Event) { ready <- e }})
	check(err)
	if e := <-ready; e.Kind != lastwill.Ready {
		check(e.Err)
	}
	e, err := elector.New(elector.Config{Backend: b, Strategy: fair.Strategy{}, Election: "/jobs/report", ID: "leader"})
	check(err)
	_, err = e.Campaign(context.Background())
	check(err)
	fmt.Println("leads")
	select {}
}

// On each service, the next candidate leads long before the dead leader's session would have timed out.
func TestOnServers(t *testing.T) {
	services.OnEach(t, func(t *testing.T, s services.Service) {
		t.Parallel()
		url := s.Scheme + "://" + s.ForTest(t).Addr()
		for _, timeout := range s.Timeouts {
			nextLeads(t, url+"?"+timeout+"=1m")
		}
	})
}

func nextLeads(t *testing.T, url string) {
	w := newWorld(t)
	w.url = url
	b := must.Get(dial.Open(t.Context(), url))(t)
	defer func() { assert.NoError(t, b.Close()) }()
	for _, with := range []string{"a companion", "a companion", "an agent"} {
		if with == "an agent" {
			w.serve()
		}
		p := w.start("leader")
		require.Equal(t, "leads", p.answer())
		e := must.Get(elector.New(elector.Config{Backend: b, Strategy: fair.Strategy{}, Election: "/jobs/report", ID: "next"}))(t)
		won := make(chan time.Time, 1)
		go func() {
			assert.NoError(t, must.Err(e.Campaign(t.Context())))
			won <- time.Now()
		}()
		wait.For(t, "the next one waits", func() bool {
			all := must.Get(e.Candidates(t.Context()))(t)
			return slices.ContainsFunc(all, func(c elector.Candidate) bool { return c.ID == "next" })
		})
		killed := time.Now()
		p.kill()
		took := (<-won).Sub(killed)
		t.Logf("%s, with %s: it took %v", url, with, took)
		assert.Less(t, took, 30*time.Second, "the session times out later")
		require.NoError(t, e.Close(t.Context()))
	}
}
