package cli

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/inspect"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy/fair"
	"github.com/elector-go/elector/strategy/ranked"
	"github.com/elector-go/elector/strategy/unfair"
)

// A reader reads what a running command has printed.
type reader struct {
	t    *testing.T
	out  wait.Log
	read int
}

// begin starts a command that keeps running, and ends it with the test.
func begin(t *testing.T, args ...string) *reader {
	ctx, cancel := context.WithCancelCause(context.Background())
	r := &reader{t: t}
	code := make(chan int)
	go func() { code <- Run(ctx, args, &r.out, io.Discard) }()
	t.Cleanup(func() {
		cancel(errInterrupted)
		assert.Equal(t, Interrupted, <-code)
	})
	return r
}

// says waits for a line with this text, after those that it has read. Lines are written whole.
func (r *reader) says(text string) (said string) {
	r.t.Helper()
	wait.For(r.t, text, func() bool {
		for line := range strings.Lines(r.out.String()[r.read:]) {
			r.read += len(line)
			if strings.Contains(line, text) {
				said = line
				return true
			}
		}
		return false
	})
	return said
}

func TestResignAndTransfer(t *testing.T) {
	const url = "mem://resign"
	t.Setenv(urlVariable, url)
	defer stand(t, url, "/jobs/a", "host-1", "")()
	defer stand(t, url, "/jobs/a", "host-2", "")()
	defer stand(t, url, "/jobs/a", "host-3", "")()
	w, j := begin(t, "watch", "/jobs/a"), begin(t, "watch", "/jobs/a", "--json")
	w.says("host-1 leads, token ")

	out, _ := run(t, OK, "resign", "/jobs/a", "--by", "anna", "--why", "disk is slow")
	assert.Equal(t, "asked to go  host-1\n", out)
	w.says("host-2 leads, token ")

	out, _ = run(t, OK, "transfer", "/jobs/a", "host-3", "--json")
	var l inspect.Leader
	require.NoError(t, json.Unmarshal([]byte(out), &l))
	assert.Equal(t, "host-2", l.ID)
	w.says("host-3 leads, token ")

	var v inspect.View
	require.NoError(t, json.Unmarshal([]byte(j.says(`"id":"host-3"`)), &v))
	assert.Equal(t, "/jobs/a", v.Election)

	out, errs := run(t, Failed, "transfer", url, "/jobs/a", "nobody")
	assert.Empty(t, out)
	assert.Contains(t, errs, `"nobody"; 'elector candidates' lists those who stand`)

	_, errs = run(t, NoElection, "resign", "/jobs/b")
	assert.Contains(t, errs, "Did you mean /jobs/a?")
}

// A watch whose link is down says so for any reason, with the last known state.
func TestWatchOutOfTouch(t *testing.T) {
	v := inspect.View{Trouble: &inspect.Trouble{Why: "session lost"}}
	assert.Equal(t, "out of touch: session lost", change(v))
	v.Strategy, v.Leader = "fair", &inspect.Leader{ID: "host-1", Token: 7}
	assert.Equal(t, "out of touch: session lost; known last: host-1 leads, token 7", change(v))
	v.Trouble.Why = "out of touch with the service: session suspended"
	assert.Equal(t, "out of touch with the service: session suspended; known last: host-1 leads, token 7", change(v))
}

func TestDesignate(t *testing.T) {
	const url = "mem://designate"
	t.Setenv(urlVariable, url)
	standBy(t, url, "/jobs/a", "host-1", "", ranked.Strategy{Preempt: true})
	standBy(t, url, "/jobs/a", "host-2", "", ranked.Strategy{Preempt: true})
	w := begin(t, "watch", "/jobs/a")
	w.says("host-1 leads, token ")

	out, _ := run(t, OK, "designate", "/jobs/a", "host-2", "--why", "deploy")
	assert.Equal(t, "designated  host-2\n", out)
	w.says("host-2 leads, token ")
	out, _ = run(t, OK, "status", "/jobs/a")
	assert.Contains(t, out, "designated  host-2\n")
	out, _ = run(t, OK, "candidates", "/jobs/a")
	assert.Contains(t, out, "\n…      host-2 is designated\n")

	out, _ = run(t, OK, "designate", "/jobs/a", "host-22")
	assert.Equal(t, "designated  host-22\ncandidate   nobody of this ID stands now\n", out)
	out, _ = run(t, OK, "candidates", "/jobs/a")
	assert.Contains(t, out, "host-22 is designated, and does not stand\n")

	out, _ = run(t, OK, "undesignate", "/jobs/a")
	assert.Equal(t, "designated  -\n", out)
	out, _ = run(t, OK, "status", "/jobs/a")
	assert.NotContains(t, out, "designated")
}

func TestDesignateWhereNobodyHeedsIt(t *testing.T) {
	const url = "mem://undesignated"
	standBy(t, url, "/jobs/a", "host-1", "", fair.Strategy{})
	out, errs := run(t, Failed, "designate", url, "/jobs/a", "host-1")
	assert.Empty(t, out)
	assert.Contains(t, errs, elector.ErrNoDesignation.Error()+": ranked alone does")

	standBy(t, url, "/jobs/b", "host-1", "", unfair.Strategy{})
	_, errs = run(t, Failed, "transfer", url, "/jobs/b", "host-2")
	assert.Contains(t, errs, elector.ErrNoTransfer.Error()+": fair and ranked can")
}

func TestRemove(t *testing.T) {
	const url = "mem://remove"
	t.Setenv(urlVariable, url)
	stop := stand(t, url, "/jobs/a", "host-1", "")
	out, errs := run(t, Failed, "rm", "/jobs/a")
	assert.Empty(t, out)
	assert.Contains(t, errs, elector.ErrInUse.Error())
	stop()

	run(t, Leaderless, "resign", "/jobs/a")
	out, _ = run(t, OK, "rm", "/jobs/a")
	assert.Equal(t, "removed  /jobs/a\n", out)
	run(t, NoElection, "rm", "/jobs/a")
}

func TestRemoveEvicts(t *testing.T) {
	const url = "mem://evict"
	s := stand(t, url, "/jobs/a", "host-1", "")
	out, _ := run(t, OK, "rm", url, "/jobs/a", "--evict")
	assert.Regexp(t, `^removed  /jobs/a\nentry    /jobs/a/\S+\n`, out)
	s()
}
