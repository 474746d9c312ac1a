package elections_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/internal/etcdtest"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/wait"
)

// envReport makes a process a child, and names the file for its report.
const envReport = "ELECTOR_CONFORMANCE_REPORT"

// tryOn runs the backends' suite with each process's backend replaced by the result of worsen.
func tryOn(t *testing.T, path string, servers *etcdtest.Servers, worsen func(p *etcdtest.Process) backend.Backend) {
	newService := servers.Service(ttl)
	report := conformance.TestBackend(t, func(t testing.TB) *conformance.Service {
		svc := newService(t)
		svc.Client = func(t testing.TB) *conformance.Client {
			p := etcdtest.NewProcess(t, servers.Addrs(), nil)
			c := p.Conformance()
			c.Backend = worsen(p)
			return c
		}
		return svc
	})
	text, err := json.Marshal(report)
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	require.NoError(t, err)
}

// reportOf runs one test of this program, with some of its rules, as a child.
func reportOf(t *testing.T, rules string) (report conformance.Report, said string) {
	t.Helper()
	self := must.Get(os.Executable())(t)
	path := filepath.Join(t.TempDir(), "report")
	ctx, cancel := context.WithTimeout(t.Context(), wait.Patience)
	defer cancel()
	top, _, _ := strings.Cut(t.Name(), "/")
	cmd := exec.CommandContext(ctx, self, "-test.v", "-test.parallel=12", fmt.Sprintf("-test.run=^%s$/^rules$/%s", top, rules))
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir(), envReport+"="+path)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	ran := cmd.Run()
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &report)
	}
	require.NoError(t, err, &out)
	if broken := report.Count(conformance.Failed) > 0; broken != (ran != nil) {
		t.Fatalf("rules are broken: %v, and it ended with %v:\n%s", broken, ran, &out)
	}
	return report, out.String()
}

// A wrong session is a session of a real server with a window that counts from the answers, and with
// commits of which some are done after its end.
type wrongSession struct {
	*backend.Session
	first time.Time        // its deadline when it was opened
	after *backend.Session // does what Session has not done
}

func (s wrongSession) Deadline() time.Time {
	d := s.Session.Deadline()
	if d.After(s.first) {
		d = d.Add(ttl / 8)
	}
	return d
}

func (s wrongSession) Commit(ctx context.Context, guards []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
	made, err := s.Session.Commit(ctx, guards, ops...)
	// Only where the rule sees it at once, and does not wait for the commit to pass.
	if errors.Is(err, backend.ErrSessionLost) && ops[0].Kind == backend.OpUpdate {
		return s.after.Commit(ctx, nil, ops...)
	}
	return made, err
}

type wrongBackend struct {
	backend.Backend
	other backend.Backend // with separate links
}

func (b wrongBackend) Open(ctx context.Context, o backend.OpenOptions) (*backend.Session, error) {
	s, err := b.Backend.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	after, err := b.other.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return s.Around(backend.DoneBy(wrongSession{s, s.Deadline(), after})), nil
}

// Rules that no mutant on memory breaks, as its messages do not linger, fail with a wrong backend on etcd.
func TestLateMessagesAreFound(t *testing.T) {
	t.Parallel()
	if path, child := os.LookupEnv(envReport); child {
		servers := etcdtest.Single(t)
		tryOn(t, path, servers, func(p *etcdtest.Process) backend.Backend {
			return wrongBackend{p.Backend, etcdtest.NewProcess(t, servers.Addrs(), nil).Backend}
		})
		return
	}
	report, said := reportOf(t, "^session$/^(slow-replies|late-requests)$")
	assert.False(t, len(report.Results) != 2 || report.Count(conformance.Failed) != 2, "%v\n%s", report, said)
}
