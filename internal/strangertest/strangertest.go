// Package strangertest checks what candidates do beside those of another system, on a real service.
package strangertest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy/fair"
)

// Beside makes strangers stand at an election's path before it is founded, beside its leader, and while it
// is vacant. stand makes a stranger, and returns when it stands there; leave removes it.
func Beside(t *testing.T, b backend.Backend, election string, stand func() (leave func())) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), wait.Patience)
	defer cancel()
	candidate := func(id string) elector.Elector {
		e := must.Get(elector.New(elector.Config{Backend: b, Strategy: fair.Strategy{}, Election: election, ID: id}))(t)
		t.Cleanup(func() { _ = e.Close(context.Background()) }) // the service may be gone
		return e
	}
	refused := func(when string, e elector.Elector) {
		t.Helper()
		_, err := e.Campaign(ctx)
		if !errors.Is(err, elector.ErrOccupied) || !strings.Contains(err.Error(), `"`+election+"/") {
			t.Fatalf("%s: %v, want ErrOccupied with the stranger's key", when, err)
		}
		t.Logf("%s: %v", when, err)
	}
	wins := func(when string, e elector.Elector) *elector.Term {
		t.Helper()
		term, err := e.Campaign(ctx)
		require.NoError(t, err, when)
		return term
	}
	first, second := candidate("first"), candidate("second")

	leave := stand()
	refused("it founds the election beside a stranger", first)
	leave()
	term := wins("the stranger has gone", first)

	leave = stand()
	refused("it enters an election beside a stranger", second)
	if !term.Valid() {
		t.Fatalf("a stranger has ended the term: %v", context.Cause(term.Context()))
	}
	require.NoError(t, term.Resign(ctx))
	refused("it enters again", first)
	leave()
	wins("the stranger has gone again", second)
}

// Stands waits until number strangers stand in an election.
func Stands(ctx context.Context, t testing.TB, s *backend.Session, election string, number int) {
	t.Helper()
	wait.For(t, "the stranger stands, or has gone", func() bool {
		_, strangers, err := s.Survey(ctx, election, nil)
		require.NoError(t, err)
		return len(strangers) == number
	})
}

// Start starts a tool that stands in an election until stop is called. stop closes the tool's standard
// input, sends it the signal, if not nil, and waits until it has ended.
func Start(t *testing.T, tool *exec.Cmd, signal os.Signal) (stop func()) {
	t.Helper()
	var output strings.Builder
	tool.Stdout, tool.Stderr = &output, &output
	tool.WaitDelay = time.Second // a process of the tool may still have them open
	input := must.Get(tool.StdinPipe())(t)
	require.NoError(t, tool.Start())
	ended := make(chan error, 1)
	go func() { ended <- tool.Wait() }()
	stop = sync.OnceFunc(func() {
		_ = input.Close()
		if signal != nil {
			_ = tool.Process.Signal(signal) // fails if it has ended
		}
		select {
		case <-ended: // in any way, usually by a signal
		case <-time.After(wait.Patience):
			_ = tool.Process.Kill()
			<-ended
			t.Errorf("%v does not end: %s", tool.Args, output.String())
		}
	})
	t.Cleanup(stop)
	return stop
}

// Kazoo returns a Python that has kazoo, a ZooKeeper client. With go test -short it skips the test.
func Kazoo(t *testing.T) (python string) {
	t.Helper()
	servertest.Long(t, "kazoo")
	for _, name := range []string{"python3", "/usr/bin/python3"} { // the second one has Debian's packages
		if exec.Command(name, "-c", "import kazoo").Run() == nil {
			return name
		}
	}
	t.Fatal("no python3 with kazoo: 'make setup-all' gets it, or pip install kazoo")
	return ""
}

// Etcdctl returns the path of etcd's own command. With go test -short it skips the test.
func Etcdctl(t *testing.T) (path string) {
	t.Helper()
	servertest.Long(t, "etcdctl")
	path, err := exec.LookPath("etcdctl")
	if err != nil {
		t.Fatalf("no etcdctl in PATH: 'make setup-all' gets it: %v", err)
	}
	return path
}
