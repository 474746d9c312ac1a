package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy/fair"
)

// build builds the program that a reader of the README runs.
func build(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "quickstart")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return binary
}

// The demonstration on fake time prints what README.md shows.
func TestDemo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var said []string
		err := demo(t.Context(), func(who, format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			said = append(said, who+" "+fmt.Sprintf(format, args...))
		}, "/quickstart", fair.Strategy{})
		if err != nil {
			t.Fatal(err)
		}
		rest := said
		for _, next := range []string{
			"anna LEADS, token 2", "anna CRASHES", "anna leads no more (token 2): session lost",
			"ben LEADS, token 4", "ben CRASHES", "ben leads no more (token 4): session lost",
			"cleo LEADS, token 5", "cleo is the last one left",
		} {
			i := slices.IndexFunc(rest, func(line string) bool { return strings.HasPrefix(line, next) })
			if i < 0 {
				t.Fatalf("%q does not come next:\n%s", next, strings.Join(said, "\n"))
			}
			rest = rest[i+1:]
		}
	})
}

func TestBadFlags(t *testing.T) {
	binary := build(t)
	for args, says := range map[string]string{
		"-backend nonsense":                           "not a URL",
		"-backend redis://h:1":                        `unknown scheme "redis"`,
		"-backend zk://h:1?timeuot=3s":                `unknown parameter "timeuot"`,
		"-backend zk://127.0.0.1:1/a/../":             `segment ".."`,
		"-backend zk://127.0.0.1:1 -election quick":   "is relative",
		"-backend zk://127.0.0.1:1 -strategy lawless": "neither fair nor unfair",
	} {
		out, err := exec.Command(binary, strings.Fields(args)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), says) {
			t.Errorf("%s: %v, %q; want a failure that says %q", args, err, out, says)
		}
	}
}

// process is one candidate among processes.
type process struct {
	id  string
	cmd *exec.Cmd
	out chan string // its lines; closed when it has ended

	accompanied chan struct{} // closed when it has a companion

	line string // the line that says it leads, if firstToLead has read it
}

// firstToLead waits until one of ps leads.
func firstToLead(t *testing.T, ps ...*process) *process {
	t.Helper()
	timeout := time.After(wait.Patience)
	cases := []reflect.SelectCase{{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(timeout)}}
	for _, p := range ps {
		cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(p.out)})
	}
	for {
		i, v, ok := reflect.Select(cases)
		if i == 0 || !ok {
			t.Fatalf("case %d: nobody leads, or somebody has ended", i)
		}
		t.Log(v)
		if p := ps[i-1]; strings.Contains(v.String(), "LEADS, token ") {
			p.line = v.String()
			return p
		}
	}
}

func start(t *testing.T, binary, url, id string) *process {
	t.Helper()
	cmd := exec.Command(binary, "-backend", url, "-id", id)
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{id: id, cmd: cmd, out: make(chan string, 100), accompanied: make(chan struct{})}
	go func() {
		defer close(p.out)
		accompanied := sync.OnceFunc(func() { close(p.accompanied) })
		for scan := bufio.NewScanner(pipe); scan.Scan(); {
			if strings.Contains(scan.Text(), "has a companion") {
				accompanied()
				continue
			}
			p.out <- scan.Text()
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // unless it has ended
		for range p.out {
		}
		_ = cmd.Wait() // reports that it was killed
	})
	return p
}

// says waits for a line that contains text, and returns it.
func (p *process) says(t *testing.T, text string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		select {
		case line, ok := <-p.out:
			if !ok {
				t.Fatalf("%s ended without saying %q", p.id, text)
			}
			t.Log(line)
			if strings.Contains(line, text) {
				return line
			}
		case <-ctx.Done():
			t.Fatalf("%s has not said %q", p.id, text)
		}
	}
}

func (p *process) leads(t *testing.T) (token uint64) {
	t.Helper()
	line := p.line
	if p.line = ""; line == "" {
		line = p.says(t, "LEADS, token ")
	}
	_, number, _ := strings.Cut(line, "LEADS, token ")
	if _, err := fmt.Sscan(number, &token); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return token
}

func (p *process) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// crash kills a process that has, or soon has, a companion.
func (p *process) crash(t *testing.T) {
	t.Helper()
	select {
	case <-p.accompanied:
	case <-time.After(wait.Patience):
		t.Fatalf("%s has no companion", p.id)
	}
	p.signal(t, syscall.SIGKILL)
}

// stop ends a leader, and waits for its goodbye.
func (p *process) stop(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGTERM)
	p.says(t, "leads no more")
	for range p.out {
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("exit after SIGTERM: %v", err)
	}
}

// Real processes elect a leader on a real server, lose it in every ordinary way, and recover.
func TestProcesses(t *testing.T) {
	servertest.Long(t, "processes on each service")
	server := servertest.ZooKeeperForTest(t, servertest.ZooKeeperConfig{NoSync: true, QuickStart: true})
	url := "zk://" + server.Addr() + "/demo?timeout=4s"
	binary := build(t)
	var tokens []uint64
	leads := func(p *process) { tokens = append(tokens, p.leads(t)) }

	a := start(t, binary, url, "a")
	leads(a)
	b := start(t, binary, url, "b")
	b.says(t, "waits")
	c := start(t, binary, url, "c")
	c.says(t, "waits")
	d := start(t, binary, url, "d")
	d.says(t, "waits")

	a.signal(t, syscall.SIGKILL) // the leader dies
	leads(b)

	b.signal(t, syscall.SIGSTOP) // the leader is paused for longer than its session
	leads(c)
	b.signal(t, syscall.SIGCONT) // it finds its term over, and stands again
	b.says(t, "leads no more")
	b.says(t, "waits")

	if err := server.Kill(); err != nil { // the server is away for longer than the trust window
		t.Fatal(err)
	}
	c.says(t, "leads no more")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	next := firstToLead(t, b, c, d)
	leads(next)

	next.stop(t)
	var others []*process
	for _, p := range []*process{b, c, d} {
		if p != next {
			others = append(others, p)
		}
	}
	leads(firstToLead(t, others...))
	for i := 1; i < len(tokens); i++ {
		if tokens[i] <= tokens[i-1] {
			t.Errorf("tokens %v do not rise", tokens)
		}
	}
}

// The same program on other services: a win, a handover, and a crash, after which nobody waits for the
// session timeout. That would take longer than a process waits for another here.
func TestOtherServices(t *testing.T) {
	servertest.Long(t, "processes on each service")
	etcd := servertest.EtcdForTest(t, servertest.EtcdConfig{NoSync: true})
	consul := servertest.ConsulForTest(t, servertest.ConsulConfig{NoSync: true})
	binary := build(t)
	for _, url := range []string{
		"etcd://" + etcd.Addr() + "/demo?timeout=3m",
		"consul://" + consul.Addr() + "?check=3m",
	} {
		a := start(t, binary, url, "a")
		first := a.leads(t)
		b := start(t, binary, url, "b")
		b.says(t, "waits")
		c := start(t, binary, url, "c")
		c.says(t, "waits")
		a.stop(t)
		second := b.leads(t)
		b.crash(t)
		if third := c.leads(t); first >= second || second >= third {
			t.Errorf("%s: tokens %d, %d, %d do not rise", url, first, second, third)
		}
		c.stop(t)
	}
}
