package kubernetes_test

import (
	"context"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordination "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/strategy/fair"
)

// A record is what client-go's election has in its Lease.
type record struct {
	sync.Mutex
	now     *resourcelock.LeaderElectionRecord
	version int
}

// A lock is a process's access to it.
type lock struct {
	*record
	id   string
	seen int
}

func (l *lock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	l.Lock()
	defer l.Unlock()
	if l.now == nil {
		return nil, nil, apierrors.NewNotFound(coordination.Resource("leases"), "old")
	}
	l.seen = l.version
	raw, err := json.Marshal(l.now)
	now := *l.now
	return &now, raw, err
}

func (l *lock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, r)
}

func (l *lock) Update(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	l.Lock()
	defer l.Unlock()
	if l.seen != l.version {
		return apierrors.NewConflict(coordination.Resource("leases"), "old", nil)
	}
	l.now, l.version = &r, l.version+1
	l.seen = l.version
	return nil
}

func (l *lock) RecordEvent(string) {}
func (l *lock) Identity() string   { return l.id }
func (l *lock) Describe() string   { return l.id }

// TestMove rolls the two releases out that docs/kubernetes.md shows, and back again.
func TestMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease, service := &record{}, memory.New(memory.Options{})
		var mu sync.Mutex
		working, last := make(map[context.Context]string), ""
		// atWork counts those who work. With the old release client-go does not wait for the end of the work, which is
		// a weakness of its own: so that work ends with its ctx.
		atWork := func() (n int) {
			for ctx, release := range working {
				if release != "old" || ctx.Err() == nil {
					n++
				}
			}
			return n
		}
		work := func(release string) func(context.Context, uint64) error {
			return func(ctx context.Context, _ uint64) error {
				mu.Lock()
				working[ctx], last = release, release
				assert.Equal(t, 1, atWork(), "at once")
				mu.Unlock()
				<-ctx.Done()
				if release != "old" {
					time.Sleep(3 * time.Second)
				}
				mu.Lock()
				delete(working, ctx)
				mu.Unlock()
				return ctx.Err()
			}
		}
		pods := 0
		start := func(release string) (stop func()) {
			pods++
			id := release + string(rune('a'+pods))
			ctx, end := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			mine := &lock{record: lease, id: id}
			elect := func(lead func(context.Context, *elector.Term) error) error {
				return elector.Lead(ctx, elector.Config{Backend: service.Client(id), Strategy: fair.Strategy{}, Election: "/e", ID: id}, lead)
			}
			go func() {
				switch work := work(release); release {
				case "old":
					leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
						Lock: mine, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second, ReleaseOnCancel: true,
						Callbacks: leaderelection.LeaderCallbacks{
							OnStartedLeading: func(ctx context.Context) { _ = work(ctx, 0) }, OnStoppedLeading: func() {},
						},
					})
					ended <- nil
				case "first":
					ended <- elect(moving(mine, work))
				case "second":
					ended <- elect(func(ctx context.Context, t *elector.Term) error { return work(ctx, t.Token()) })
				}
			}()
			return func() {
				end()
				assert.NoError(t, <-ended)
			}
		}
		stop := []func(){start("old"), start("old")}
		for _, release := range []string{"old", "first", "first", "second", "first", "old"} {
			for i := range stop { // each leads once, for a while
				time.Sleep(time.Minute)
				next := start(release)
				stop[i]()
				stop[i] = next
			}
			time.Sleep(time.Minute)
			mu.Lock()
			assert.Equal(t, release, last)
			assert.Equal(t, 1, atWork())
			mu.Unlock()
		}
		for _, stop := range stop {
			stop()
		}
	})
}

// The page's code is what TestMove tries.
func TestPage(t *testing.T) {
	page := string(must.Get(os.ReadFile("../../docs/kubernetes.md"))(t))
	code := string(must.Get(os.ReadFile("example_test.go"))(t))
	flush := func(code string) string { return regexp.MustCompile(`(?m)^[\t ]+`).ReplaceAllString(code, "") }
	block := regexp.MustCompile(`(?ms)^func both.*?\n(.*?)^}$`).FindStringSubmatch(page)
	require.NotNil(t, block)
	require.True(t, strings.Contains(flush(code), flush(block[1])), "not in example_test.go:\n%s", block[1])
}
