package conformance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/internal/attempt"
	"github.com/elector-go/elector/internal/etcdtest"
)

// These tell a child that it is one, what it is to try, and where to put its report.
const (
	envReport = "ELECTOR_CONFORMANCE_REPORT"
	envKind   = "ELECTOR_CONFORMANCE_KIND"
)

// A spoilt backend does something to the process or to the lease when a session was opened.
type spoilt struct {
	backend.Backend
	opened func()
}

func (b spoilt) Open(ctx context.Context, o backend.OpenOptions) (*backend.Session, error) {
	s, err := b.Backend.Open(ctx, o)
	b.opened()
	return s, err
}

// trySpoilt runs the backends' suite on a real server, as a child; its rules fail.
func trySpoilt(t *testing.T, path string, opened func(servers *etcdtest.Servers, p *etcdtest.Process)) {
	servers := etcdtest.Single(t)
	tryOn(t, path, servers, func(p *etcdtest.Process) backend.Backend {
		return spoilt{p.Backend, func() { opened(servers, p) }}
	})
}

// tryOn runs the backends' suite with the backend that worsen makes of each process's.
func tryOn(t *testing.T, path string, servers *etcdtest.Servers, worsen func(p *etcdtest.Process) backend.Backend) {
	newService := servers.Service(etcdTTL)
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
	if err != nil {
		t.Fatal(err)
	}
}

// reportOf runs one test of this program, as a child, and some of its rules.
func reportOf(t *testing.T, kind, rules string) (report conformance.Report, said string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "report")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	top, _, _ := strings.Cut(t.Name(), "/")
	cmd := exec.CommandContext(ctx, self, "-test.v", "-test.parallel=12", fmt.Sprintf("-test.run=^%s$/^rules$/%s", top, rules))
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir(), envReport+"="+path, envKind+"="+kind)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	ran := cmd.Run()
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &report)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	if broken := report.Count(conformance.Failed) > 0; broken != (ran != nil) {
		t.Fatalf("rules are broken: %v, and it ended with %v:\n%s", broken, ran, &out)
	}
	return report, out.String()
}

// A backend that loses sessions at random is broken, on a machine that has nothing else to do
// and on one that has too much: its failures are not excused as those of the environment. Nor
// are those of one that ends all sessions there are, that of the control, too.
func TestLosesSessions(t *testing.T) {
	if path, child := os.LookupEnv(envReport); child {
		all := os.Getenv(envKind) == "all"
		trySpoilt(t, path, func(_ *etcdtest.Servers, p *etcdtest.Process) {
			time.AfterFunc(rand.N(etcdTTL/50), func() {
				if all {
					_ = etcdtest.RevokeAll(p.Servers)
				} else if leases := p.Leases(); len(leases) > 0 { // it was opened
					_ = etcdtest.Revoke(p.Servers, leases[len(leases)-1])
				}
			})
		})
		return
	}
	for _, c := range []struct {
		name, kind string
		spinning   int
	}{{"quiet", "own", 0}, {"busy", "own", 4}, {"everybody's", "all", 0}} {
		t.Run(c.name, func(t *testing.T) {
			spin(t, c.spinning)
			// Not those in which one waits for what another has written, until the rule's time is over.
			report, said := reportOf(t, c.kind, "^write$/^(key-limits|keys|too-large|too-many)$")
			broken := 0
			for _, r := range report.Results {
				if r.Outcome == conformance.Failed && len(r.Void) < attempt.Most {
					broken++ // for it has failed while the control was well
				}
			}
			t.Log(report)
			// The others may have been done before their sessions were lost.
			if broken == 0 {
				t.Errorf("none of %d rules is broken:\n%s", len(report.Results), said)
			}
		})
	}
}

// spin starts processes that take all the processor time they get, until the test ends. They
// end with this process, too.
func spin(t *testing.T, processes int) {
	for range processes {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", "while kill -0 $PPID 2>/dev/null; do :; done")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Wait() }) // it was killed
	}
}

// A backend that has the process stand still cannot be told from a machine that does. It is
// tried three times, and then it has failed. A sound one whose server stands still once holds
// all rules, at the second try.
func TestStandsStill(t *testing.T) {
	path, child := os.LookupEnv(envReport)
	switch kind := os.Getenv(envKind); {
	case child && kind == "process":
		trySpoilt(t, path, func(*etcdtest.Servers, *etcdtest.Process) {
			sleep := (etcdTTL + etcdTTL/2).Seconds()
			script := fmt.Sprintf("kill -STOP $PPID; sleep %v; kill -CONT $PPID", sleep)
			if err := exec.Command("sh", "-c", script).Run(); err != nil {
				t.Error(err)
			}
		})
		return
	case child:
		var once sync.Once
		trySpoilt(t, path, func(servers *etcdtest.Servers, _ *etcdtest.Process) {
			once.Do(func() {
				if err := servers.Members[0].Pause(); err != nil {
					t.Error(err)
				}
				time.AfterFunc(2*etcdTTL, func() { _ = servers.Members[0].Resume() }) // it may have ended
			})
		})
		return
	}
	t.Run("process", func(t *testing.T) {
		t.Parallel() // it mostly waits
		report, said := reportOf(t, "process", "^list$/^await$")
		if len(report.Results) != 1 || report.Count(conformance.Failed) != 1 || report.Void() != attempt.Most {
			t.Errorf("%v", report)
		}
		for _, want := range []string{"void 3 times in a row", "this process stood still"} {
			if !strings.Contains(said, want) {
				t.Errorf("%q is not in\n%s", want, said)
			}
		}
	})
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		report, said := reportOf(t, "server", "^(list|await)$")
		if report.Count(conformance.Failed) > 0 || report.Void() == 0 {
			t.Errorf("%v\n%s", report, said)
		}
	})
}

// A wrong session is one of a real server with a window that counts from the answers, and of whose
// commits some are done after its end.
type wrongSession struct {
	*backend.Session
	first time.Time        // its deadline when it was opened
	after *backend.Session // does what this one has not
}

func (s wrongSession) Deadline() time.Time {
	d := s.Session.Deadline()
	if d.After(s.first) {
		d = d.Add(etcdTTL / 8)
	}
	return d
}

func (s wrongSession) Commit(ctx context.Context, guards []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
	made, err := s.Session.Commit(ctx, guards, ops...)
	// Only where the rule sees it at once, and does not wait for it to pass.
	if errors.Is(err, backend.ErrSessionLost) && ops[0].Kind == backend.OpUpdate {
		return s.after.Commit(ctx, nil, ops...)
	}
	return made, err
}

type wrongBackend struct {
	backend.Backend
	other backend.Backend // with links of its own
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

// What no mutant on memory breaks, as its messages do not linger, a backend on a server does.
func TestLateMessagesAreFound(t *testing.T) {
	if path, child := os.LookupEnv(envReport); child {
		servers := etcdtest.Single(t)
		tryOn(t, path, servers, func(p *etcdtest.Process) backend.Backend {
			return wrongBackend{p.Backend, etcdtest.NewProcess(t, servers.Addrs(), nil).Backend}
		})
		return
	}
	report, said := reportOf(t, "", "^session$/^(slow-replies|late-requests)$")
	if len(report.Results) != 2 || report.Count(conformance.Failed) != 2 || report.Void() > 0 {
		t.Errorf("%v\n%s", report, said)
	}
}
