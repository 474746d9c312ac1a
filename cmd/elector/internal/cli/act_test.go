package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/inspect"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy/fair"
	"github.com/elector-go/elector/strategy/ranked"
	"github.com/elector-go/elector/strategy/unfair"
)

// A reader reads what a command that goes on has printed.
type reader struct {
	t     *testing.T
	lines chan string
}

// begin begins a command that goes on, and ends it with the test.
func begin(t *testing.T, args ...string) *reader {
	in, out := io.Pipe()
	ctx, cancel := context.WithCancelCause(context.Background())
	r := &reader{t, make(chan string, 100)}
	code := make(chan int)
	go func() {
		code <- Run(ctx, args, out, io.Discard)
	}()
	go func() {
		defer close(r.lines)
		for lines := bufio.NewScanner(in); lines.Scan(); {
			r.lines <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		cancel(errInterrupted)
		assert.Equal(t, Interrupted, <-code)
		_ = out.Close()
	})
	return r
}

// says waits for a line with this text.
func (r *reader) says(text string) string {
	r.t.Helper()
	for end := time.After(wait.Patience); ; {
		select {
		case line := <-r.lines:
			if strings.Contains(line, text) {
				return line
			}
		case <-end:
			require.FailNow(r.t, "no line with "+text)
		}
	}
}

func TestResignAndTransfer(t *testing.T) {
	const url = "mem://resign"
	t.Setenv(urlVariable, url)
	defer stand(t, url, "/jobs/a", "host-1", "")()
	defer stand(t, url, "/jobs/a", "host-2", "")()
	defer stand(t, url, "/jobs/a", "host-3", "")()
	w, j := begin(t, "watch", "/jobs/a"), begin(t, "watch", "/jobs/a", "--json")
	w.says("host-1 leads, token ")

	code, out, errs := run("resign", "/jobs/a", "--by", "anna", "--why", "disk is slow")
	assert.Equal(t, OK, code, errs)
	assert.Equal(t, "asked to go  host-1\n", out)
	w.says("host-2 leads, token ")

	code, out, errs = run("transfer", "/jobs/a", "host-3", "--json")
	assert.Equal(t, OK, code, errs)
	var l inspect.Leader
	require.NoError(t, json.Unmarshal([]byte(out), &l))
	assert.Equal(t, "host-2", l.ID)
	w.says("host-3 leads, token ")

	var v inspect.View
	require.NoError(t, json.Unmarshal([]byte(j.says(`"id":"host-3"`)), &v))
	assert.Equal(t, "/jobs/a", v.Election)

	code, out, errs = run("transfer", url, "/jobs/a", "nobody")
	assert.Equal(t, Failed, code)
	assert.Empty(t, out)
	assert.Contains(t, errs, `"nobody"; 'elector candidates' lists those who stand`)

	code, _, errs = run("resign", "/jobs/b")
	assert.Equal(t, NoElection, code)
	assert.Contains(t, errs, "Did you mean /jobs/a?")
}

// A watch that is out of touch says so whatever the reason, and what it knew last.
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

	code, out, errs := run("designate", "/jobs/a", "host-2", "--why", "deploy")
	assert.Equal(t, OK, code, errs)
	assert.Equal(t, "designated  host-2\n", out)
	w.says("host-2 leads, token ")
	_, out, _ = run("status", "/jobs/a")
	assert.Contains(t, out, "designated  host-2\n")
	_, out, _ = run("candidates", "/jobs/a")
	assert.Contains(t, out, "\n…      host-2 is designated\n")

	code, out, errs = run("designate", "/jobs/a", "host-22")
	assert.Equal(t, OK, code, errs)
	assert.Equal(t, "designated  host-22\ncandidate   nobody of this ID stands now\n", out)
	_, out, _ = run("candidates", "/jobs/a")
	assert.Contains(t, out, "host-22 is designated, and does not stand\n")

	code, out, errs = run("undesignate", "/jobs/a")
	assert.Equal(t, OK, code, errs)
	assert.Equal(t, "designated  -\n", out)
	_, out, _ = run("status", "/jobs/a")
	assert.NotContains(t, out, "designated")
}

func TestDesignateWhereNobodyHeedsIt(t *testing.T) {
	const url = "mem://undesignated"
	standBy(t, url, "/jobs/a", "host-1", "", fair.New())
	code, out, errs := run("designate", url, "/jobs/a", "host-1")
	assert.Equal(t, Failed, code)
	assert.Empty(t, out)
	assert.Contains(t, errs, elector.ErrNoDesignation.Error()+": ranked alone does")

	standBy(t, url, "/jobs/b", "host-1", "", unfair.New())
	code, _, errs = run("transfer", url, "/jobs/b", "host-2")
	assert.Equal(t, Failed, code)
	assert.Contains(t, errs, elector.ErrNoTransfer.Error()+": fair and ranked can")
}

func TestRemove(t *testing.T) {
	const url = "mem://remove"
	t.Setenv(urlVariable, url)
	stop := stand(t, url, "/jobs/a", "host-1", "")
	code, out, errs := run("rm", "/jobs/a")
	assert.Equal(t, Failed, code)
	assert.Empty(t, out)
	assert.Contains(t, errs, elector.ErrInUse.Error())
	stop()

	code, _, errs = run("resign", "/jobs/a")
	assert.Equal(t, Leaderless, code, errs)
	code, out, errs = run("rm", "/jobs/a")
	assert.Equal(t, OK, code, errs)
	assert.Equal(t, "removed  /jobs/a\n", out)
	code, _, _ = run("rm", "/jobs/a")
	assert.Equal(t, NoElection, code)
}

func TestRemoveEvicts(t *testing.T) {
	const url = "mem://evict"
	s := stand(t, url, "/jobs/a", "host-1", "")
	code, out, errs := run("rm", url, "/jobs/a", "--evict")
	assert.Equal(t, OK, code, errs)
	assert.Regexp(t, `^removed  /jobs/a\nentry    /jobs/a/\S+\n`, out)
	s()
}
