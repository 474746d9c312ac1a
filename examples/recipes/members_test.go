package main

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/must"
)

// controls starts a controller, which assigns task "a", and more, until all are done.
func controls(t *testing.T, s *backend.Session, more ...string) *doing[any] {
	return begin(func() (any, error) { return nil, Control(t.Context(), s, nil, "/jobs", append(more, "a"), t.Logf) })
}

// works starts a worker. Each of its tasks lasts until finish is called.
func works(t *testing.T, s *backend.Session) (begun chan Job, finish func()) {
	begun = make(chan Job, 10)
	finished, finish := context.WithCancel(t.Context())
	during(t, func(ctx context.Context) error {
		return Work(ctx, s, "/jobs", s.ID(), func(ctx context.Context, j Job) error {
			begun <- j
			select {
			case <-finished.Done():
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	})
	synctest.Wait()
	return begun, finish
}

// TestWorkersAndStrangers: somebody scribbles, and deletes a task in work: its reports and its mark are
// refused, and it begins again.
func TestWorkersAndStrangers(t *testing.T) {
	onMemory(t, func(t *testing.T, svc *memory.Service, s *backend.Session) {
		for _, key := range []string{"/jobs/tasks/a", "/jobs/workers/notes"} {
			require.NoError(t, svc.Put(key, []byte("nonsense")))
		}
		must.Get(s.Commit(t.Context(), nil, backend.Enqueue("/jobs/workers", []byte("nonsense"))))(t)
		worker := open(t, svc)
		begun, finish := works(t, worker)
		running := controls(t, s)
		first := <-begun
		require.NoError(t, first.Report(t.Context(), 50))
		_, all, err := Members(t.Context(), s, "/jobs")
		require.NoError(t, err)
		assert.Equal(t, offer{worker.ID(), "a", 50}, all[1].offer, "the controller sees the progress")
		svc.Delete("/jobs/tasks/a")
		assert.True(t, refused(first.Report(t.Context(), 60)))
		second := <-begun
		assert.Greater(t, second.Token, first.Token)
		svc.Delete("/jobs/tasks/a")
		others, finishOthers := works(t, open(t, svc)) // and the task is given to another one
		third := <-others
		finish()
		synctest.Wait()
		a, _ := decode[assignment](svc.Entry("/jobs/tasks/a"))
		assert.False(t, a.Done, "only the other one may mark it")
		require.NoError(t, third.Report(t.Context(), 100))
		finishOthers()
		running.wait(t)
		controls(t, s).wait(t) // nothing is left to do
	})
}

// TestTaskThatCannotBeTakenBack: a stranger has put something below it. The other tasks continue.
func TestTaskThatCannotBeTakenBack(t *testing.T) {
	onMemory(t, func(t *testing.T, svc *memory.Service, s *backend.Session) {
		require.NoError(t, svc.Put("/jobs/tasks/a", encode(assignment{Worker: "/jobs/workers/x", Rev: 1})))
		require.NoError(t, svc.Put("/jobs/tasks/a/b", nil))
		begun, finish := works(t, open(t, svc))
		finish()
		running := controls(t, s, "c")
		assert.Equal(t, "c", (<-begun).Task)
		running.blocks(t, "the controller")
		svc.Delete("/jobs/tasks/a/b")
		assert.Equal(t, "a", (<-begun).Task)
		running.wait(t)
	})
}

// TestFailureThatLooksLikeARefusal: do fails with an error of the service that came from elsewhere. Work
// returns it, and does not begin the task again and again.
func TestFailureThatLooksLikeARefusal(t *testing.T) {
	for _, own := range []error{backend.ErrNoEntry, backend.ErrCondition, backend.ErrConflict, backend.ErrIndeterminate} {
		onMemory(t, func(t *testing.T, svc *memory.Service, s *backend.Session) {
			controls(t, s)
			begun := 0
			assert.ErrorIs(t, Work(t.Context(), open(t, svc), "/jobs", "one", func(context.Context, Job) error {
				if begun++; begun > 1 {
					return assert.AnError
				}
				return fmt.Errorf("do: %w", own)
			}), own)
			synctest.Wait()
		})
	}
}
