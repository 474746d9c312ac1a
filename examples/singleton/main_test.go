package main

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/strategy/fair"
)

// A machine is a candidate, and what it has logged.
type machine struct {
	unfit string // its file

	mu  sync.Mutex
	log bytes.Buffer
}

func (m *machine) Write(line []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.log.Write(line)
}

// logged returns what the machine has logged since the last look.
func (m *machine) logged() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer m.log.Reset()
	return m.log.String()
}

func (m *machine) works() bool { return strings.Contains(m.logged(), "step done") }

// start has a machine stand until ctx ends.
func start(ctx context.Context, t *testing.T, fleet *sync.WaitGroup, service *memory.Service, id string) *machine {
	m := &machine{unfit: filepath.Join(t.TempDir(), "unfit")}
	log := slog.New(slog.NewTextHandler(m, nil))
	fleet.Go(func() {
		if err := stand(ctx, service.Client(id), log, "/jobs/report", id, func(context.Context) error { return healthy(m.unfit) }); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	})
	time.Sleep(3 * time.Second) // it stands, and works if it leads
	synctest.Wait()             // no check is under way while the test writes a file
	return m
}

// A machine that is not fit hands over, and comes back to the end of the line. One that is asked to go
// does the same.
func TestHandover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fleet sync.WaitGroup
		defer fleet.Wait()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		service := memory.New(memory.Options{})
		anna := start(ctx, t, &fleet, service, "anna")
		ben := start(ctx, t, &fleet, service, "ben")
		if !anna.works() || ben.works() {
			t.Fatal("the first to come does not work, or the second does")
		}

		if err := os.WriteFile(anna.unfit, []byte("disk check\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		said := anna.logged()
		for _, line := range []string{`msg="asked to go"`, `not fit: ` + anna.unfit + ` exists: disk check`, `msg="not fit to lead; standing aside"`} {
			if !strings.Contains(said, line) {
				t.Errorf("anna is not fit, and her log does not say %s:\n%s", line, said)
			}
		}
		if !ben.works() {
			t.Error("anna is not fit, and ben does not work")
		}

		if err := os.Remove(anna.unfit); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if anna.works() || !ben.works() {
			t.Error("anna is fit again, and has taken the job from ben")
		}
		request := elector.Request{By: "an operator", Why: "deploy"}
		if leader, err := elector.Ask(t.Context(), service.Client("operator"), fair.New(), "/jobs/report", request); err != nil || leader.ID != "ben" {
			t.Fatalf("Ask: %v, %v", leader.ID, err)
		}
		time.Sleep(5 * time.Second)
		if said := ben.logged(); !anna.works() || !strings.Contains(said, `resigned: asked to go by \"an operator\"`) {
			t.Errorf("ben was asked to go:\n%s", said)
		}
	})
}
