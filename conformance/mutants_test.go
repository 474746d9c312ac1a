package conformance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/conformance"
	"github.com/elector-go/elector/internal/etcdtest"
)

// envReport tells a child that it is one, and where to put its report.
const envReport = "ELECTOR_CONFORMANCE_REPORT"

// A spoilt backend does something to the process or to the lease when a session was opened.
type spoilt struct {
	backend.Backend
	opened func()
}

func (b spoilt) Open(ctx context.Context, o backend.OpenOptions) (backend.Session, error) {
	s, err := b.Backend.Open(ctx, o)
	b.opened()
	return s, err
}

// trySpoilt runs the backends' suite on a real server, as a child; its rules fail.
func trySpoilt(t *testing.T, path string, opened func(p *etcdtest.Process)) {
	servers := etcdtest.Single(t)
	newService := servers.Service(etcdTTL)
	report := conformance.TestBackend(t, func(t testing.TB) *conformance.Service {
		svc := newService(t)
		svc.Client = func(t testing.TB) *conformance.Client {
			p := etcdtest.NewProcess(t, servers.Addrs(), nil)
			c := p.Conformance()
			c.Backend = spoilt{p.Backend, func() { opened(p) }}
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
func reportOf(t *testing.T, rules string) (report conformance.Report, said string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "report")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	top, _, _ := strings.Cut(t.Name(), "/")
	cmd := exec.CommandContext(ctx, self, "-test.v", "-test.parallel=8", fmt.Sprintf("-test.run=^%s$/^rules$/%s", top, rules))
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir(), envReport+"="+path)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err == nil {
		t.Fatalf("no rule failed:\n%s", &out)
	}
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &report)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	return report, out.String()
}

// A backend that loses sessions at random is broken, on a machine that has nothing else to do
// and on one that has too much: its failures are not excused as those of the environment.
func TestLosesSessions(t *testing.T) {
	if path, child := os.LookupEnv(envReport); child {
		trySpoilt(t, path, func(p *etcdtest.Process) {
			leases := p.Leases()
			if len(leases) == 0 {
				return // it was not opened
			}
			time.AfterFunc(rand.N(etcdTTL/10), func() { revoke(p.Servers, leases[len(leases)-1]) })
		})
		return
	}
	for name, spinning := range map[string]int{"quiet": 0, "busy": 4} {
		t.Run(name, func(t *testing.T) {
			spin(t, spinning)
			report, said := reportOf(t, "^(await|list)$")
			broken := 0
			for _, r := range report.Results {
				if r.Outcome == conformance.Failed && len(r.Void) < 3 {
					broken++ // for it has failed while the control was well
				}
			}
			t.Log(report)
			// The others may have been done before their sessions were lost.
			if broken < 3 {
				t.Errorf("only %d of %d rules are broken:\n%s", broken, len(report.Results), said)
			}
		})
	}
}

func revoke(servers []string, lease clientv3.LeaseID) { _ = etcdtest.Revoke(servers, lease) }

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
// tried three times, and then it has failed.
func TestStandsStill(t *testing.T) {
	if path, child := os.LookupEnv(envReport); child {
		trySpoilt(t, path, func(*etcdtest.Process) {
			sleep := (etcdTTL + etcdTTL/2).Seconds()
			script := fmt.Sprintf("kill -STOP $PPID; sleep %v; kill -CONT $PPID", sleep)
			if err := exec.Command("sh", "-c", script).Run(); err != nil {
				t.Error(err)
			}
		})
		return
	}
	report, said := reportOf(t, "^list$/^await$")
	if len(report.Results) != 1 || report.Count(conformance.Failed) != 1 || report.Void() != 3 {
		t.Errorf("%v", report)
	}
	for _, want := range []string{"void 3 times in a row", "this process stood still"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in\n%s", want, said)
		}
	}
}
