package lastwill_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
	"github.com/elector-go/elector/internal/must"
	processes "github.com/elector-go/elector/internal/process"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/lastwill"
)

// Environment variables for the processes of a test.
const (
	roleVar   = "LASTWILL_TEST_ROLE"   // candidate, agent, silent
	ledgerVar = "LASTWILL_TEST_LEDGER" // the file in which the service notes each ended session
	agentVar  = "LASTWILL_TEST_AGENT"  // path of the agent's socket, "" for a companion
	ttlVar    = "LASTWILL_TEST_TTL"    // of sessions
	nameVar   = "LASTWILL_TEST_NAME"   // what sessions are called, if a process id is not unique
	manyVar   = "LASTWILL_TEST_MANY"   // processes of the crowd
)

// roles are what this program is in tests, by roleVar: see also TestMain.
var roles = map[string]func(){
	"candidate": candidate, "agent": agent, "early": early, "deaf": deaf,
	"silent": after(func() { os.Exit(0) }), "stuck": after(stuck), "hanging": after(hanging),
	"leader": leader, "crowd": crowd, "doomed": doomed, "optional": optional, "wrapped": wrapped,
}

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleVar); role {
	case "":
		os.Exit(servertest.Main(m))
	case "bare":
		check(flag.Set("test.run", "^TestUnderTest$"))
		os.Exit(m.Run())
	default:
		roles[role]()
		os.Exit(0)
	}
}

// A service is a Backend whose sessions are names, and which notes in a file those that it has ended. The
// environment names the file.
type service struct{ opened int }

var toStderr = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))

// opener is the Opener of candidates.
var opener lastwill.Opener = openService

func openService() (backend.Backend, error) { return &service{}, nil }

func (s *service) String() string { return "toy" }
func (s *service) Limits() backend.Limits {
	return backend.Limits{DefaultTTL: ttl(), MaxTTL: 24 * time.Hour}
}

func ttl() time.Duration {
	d, err := time.ParseDuration(os.Getenv(ttlVar))
	if err != nil {
		return 10 * time.Second
	}
	return d
}

// Open opens a session with this process's next number.
func (s *service) Open(context.Context, backend.OpenOptions) (*backend.Session, error) {
	s.opened++
	return backend.NewSession("toy", &session{id: fmt.Sprintf("%s%d.%d", os.Getenv(nameVar), os.Getpid(), s.opened), until: time.Now().Add(time.Hour), closed: make(chan struct{})}), nil
}

// Execute notes the session. The file "down" beside the ledger makes the service fail, "deny" makes it refuse, and
// "slow" makes it try on.
func (s *service) Execute(ctx context.Context, w backend.Will) error {
	if _, marked := os.LookupEnv("ELECTOR_COMPANION"); marked {
		return fmt.Errorf("%w: children would have the marker", backend.ErrDenied)
	}
	ledger := os.Getenv(ledgerVar)
	for name, err := range map[string]error{"down": backend.ErrUnavailable, "deny": backend.ErrDenied} {
		if _, no := os.Stat(filepath.Join(filepath.Dir(ledger), name)); no == nil {
			return err
		}
	}
	if _, no := os.Stat(filepath.Join(filepath.Dir(ledger), "slow")); no == nil {
		backend.Tried(ctx, errors.New("one is away"))
		<-ctx.Done()
		return ctx.Err()
	}
	f, err := os.OpenFile(ledger, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = fmt.Fprintf(f, "%s %s\n", w.Session, w.Secret)
	return err
}

// session is a session of the service.
type session struct {
	backend.Driver // missing methods are never called
	id             string
	mu             sync.Mutex
	until          time.Time
	closed         chan struct{}
	err            error // of Close
}

func (s *session) ID() string         { return s.id }
func (s *session) TTL() time.Duration { return ttl() }
func (s *session) WillSecret() []byte { return []byte("secret" + s.id) }

func (s *session) Deadline() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.until
}

func (s *session) State() backend.State {
	select {
	case <-s.closed:
		return backend.Lost
	default:
		return backend.Live
	}
}

// lose ends the session, with its deadline ago in the past.
func (s *session) lose(ago time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = time.Now().Add(-ago)
	if s.State() != backend.Lost {
		close(s.closed)
	}
}

func (s *session) Close(context.Context) error {
	s.lose(0)
	return s.err
}

// candidate is a process that executes its standard input, line by line, and answers each line.
func candidate() {
	events := make(chan lastwill.Event, 100)
	b, err := lastwill.Start(opener, lastwill.Options{
		Agent: os.Getenv(agentVar), Logger: toStderr, OnEvent: func(e lastwill.Event) { events <- e },
	})
	if err != nil {
		fmt.Println("start:", err)
		return
	}
	sessions := make(map[string]*backend.Session)
	var holds []*lastwill.Hold
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		word, rest, _ := strings.Cut(in.Text(), " ")
		answer := "ok"
		switch word {
		case "event": // waits for the next event
			e := <-events
			answer = fmt.Sprintf("%s %d %v", e.Kind, e.PID, e.Err)
		case "open":
			s, err := b.Open(context.Background(), backend.OpenOptions{})
			check(err)
			sessions[s.ID()] = s
			answer = s.ID()
		case "open-and-die":
			began := time.Now()
			_, err := b.Open(context.Background(), backend.OpenOptions{})
			check(err)
			for time.Since(began) >= 2*time.Second && (<-events).Kind != lastwill.Ready { // Open waits no longer
			}
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		case "close":
			answer = fmt.Sprint(sessions[rest].Close(context.Background()))
		case "end":
			answer = fmt.Sprint(b.Close())
		case "setuid":
			uid, _ := strconv.Atoi(rest)
			answer = fmt.Sprint(syscall.Setuid(uid))
		case "chdir":
			answer = fmt.Sprint(os.Chdir(rest))
		case "env":
			answer = strings.Join(os.Environ(), ",")
		case "hold":
			h, err := b.Hold()
			check(err)
			holds = append(holds, h)
			answer = child(h.File(), "/bin/sh", "-c", rest)
		case "release":
			for _, h := range holds {
				check(errors.Join(h.Release(), h.Release()))
			}
		case "fork":
			answer = child(nil, "/bin/sleep", "600")
		case "exec":
			fmt.Println("ok")
			fmt.Println(syscall.Exec("/bin/sleep", []string{"sleep", "600"}, os.Environ()))
		case "cut": // closes the connection under the process
			answer = cut()
		case "exit":
			os.Exit(3)
		case "panic":
			go panic("a panic of the test")
			select {}
		default:
			answer = "what is " + word
		}
		fmt.Println(answer)
	}
	select {} // the test ends it
}

// child starts a process that inherits a file, and returns its number.
func child(file *os.File, name string, args ...string) string {
	c := exec.Command(name, args...)
	c.ExtraFiles = []*os.File{file}
	if err := c.Start(); err != nil {
		return err.Error()
	}
	return strconv.Itoa(c.Process.Pid)
}

// cut shuts down all Unix sockets of this process: the other end reads EOF.
func cut() string {
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err.Error()
	}
	n := 0
	for _, f := range fds {
		fd, _ := strconv.Atoi(f.Name())
		if kind, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_TYPE); err == nil && kind == syscall.SOCK_SEQPACKET {
			if syscall.Shutdown(fd, syscall.SHUT_RDWR) == nil {
				n++
			}
		}
	}
	return strconv.Itoa(n)
}

// after returns a candidate whose companion first does something else.
func after(do func()) func() {
	return func() {
		const ran = "LASTWILL_TEST_GONE"
		if os.Getenv(ran) != "" {
			do()
		}
		check(os.Setenv(ran, "1"))
		candidate()
	}
}

// stuck waits for something before Start.
func stuck() {
	fmt.Fprintf(os.Stderr, "stuck %d.\n", os.Getpid())
	time.Sleep(time.Hour)
}

// hanging never opens the service.
func hanging() { opener = func() (backend.Backend, error) { select {} } }

// wrapped is a process whose backend does not pass wills on.
func wrapped() {
	opener = func() (backend.Backend, error) { return struct{ backend.Backend }{&service{}}, nil }
	candidate()
}

// early is a process that opens a session before Start.
func early() {
	_, err := driver.Open(context.Background(), &service{}, backend.OpenOptions{}, func(context.Context, time.Duration) (*session, error) {
		return &session{id: "early"}, nil
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	candidate()
}

// agent serves until its standard input ends.
func agent() {
	_ = os.Remove(os.Getenv(agentVar)) // left by an agent that was killed
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: os.Getenv(agentVar), Net: "unixpacket"})
	if err != nil {
		fmt.Println("listen:", err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	backends := []backend.Backend{&service{}}
	if os.Getenv(urlVar) != "" {
		b, err := dialed()
		check(err)
		backends = append(backends, b)
	}
	fmt.Println("ok")
	fmt.Println(lastwill.Serve(ctx, l, lastwill.ServeOptions{Backends: backends, Logger: toStderr}))
}

// A world is what the processes of a test share.
type world struct {
	t      *testing.T
	ledger string
	agent  string   // path of its socket, "" if there is no agent
	served *process // the agent
	ttl    time.Duration
	url    string     // of a leader's service
	dir    string     // of processes, "" for the test's directory
	files  []*os.File // inherited by processes, from number 3 on
}

func newWorld(t *testing.T) *world {
	return &world{t: t, ledger: filepath.Join(t.TempDir(), "ledger"), ttl: wait.Patience}
}

// switchTo makes the service fail ("down") or refuse ("deny") until the file is removed.
func (w *world) switchTo(what string) (file string) {
	file = filepath.Join(filepath.Dir(w.ledger), what)
	require.NoError(w.t, os.WriteFile(file, nil, 0o600))
	return file
}

// ended returns the ended sessions in order.
func (w *world) ended() []string {
	w.t.Helper()
	return must.Get(endedBy(w.ledger))(w.t)
}

func endedBy(ledger string) (ids []string, err error) {
	text, err := os.ReadFile(ledger)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		id, secret, _ := strings.Cut(strings.TrimSpace(line), " ")
		if secret != "secret"+id {
			return nil, fmt.Errorf("a will has not come as it was: %q", line)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// awaitEnded waits until exactly these sessions are ended.
func (w *world) awaitEnded(ids ...string) {
	w.t.Helper()
	ended := func() []string { // twice if the process has just connected again
		all := w.ended()
		slices.Sort(all)
		return slices.Compact(all)
	}
	wait.For(w.t, fmt.Sprintf("the service has ended %v", ids), func() bool { return len(ended()) >= len(ids) })
	require.ElementsMatch(w.t, ids, ended())
}

// A process is a process of a test.
type process struct {
	*world
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
	log   *wait.Log // output of the process and its companion
}

// start starts a process with a role.
func (w *world) start(role string) *process {
	w.t.Helper()
	exe := must.Get(os.Executable())(w.t)
	p := &process{world: w, cmd: exec.Command(exe, "an argument", "-test.v"), lines: make(chan string, 100), log: new(wait.Log)}
	p.cmd.Env = append(os.Environ(), roleVar+"="+role, ledgerVar+"="+w.ledger, agentVar+"="+w.agent, ttlVar+"="+w.ttl.String(), urlVar+"="+w.url)
	p.cmd.Dir, p.cmd.ExtraFiles = w.dir, w.files
	p.in = must.Get(p.cmd.StdinPipe())(w.t)
	out := must.Get(p.cmd.StdoutPipe())(w.t)
	errs, theirs, err := os.Pipe() // Wait must not wait for companions
	require.NoError(w.t, err)
	p.cmd.Stderr = theirs
	require.NoError(w.t, p.cmd.Start())
	_ = theirs.Close()
	go func() { _, _ = io.Copy(p.log, errs); _ = errs.Close() }()
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			p.lines <- s.Text()
		}
		close(p.lines)
	}()
	w.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		for _, said := range []string{p.log.String(), strings.Join(p.cmd.Args, " "), strings.Join(p.cmd.Env, " ")} {
			assert.NotContains(w.t, said, "secret", "the service's secret is in the log")
			assert.NotContains(w.t, said, base64.StdEncoding.EncodeToString([]byte("secret")), "the service's secret is in the log")
		}
		if w.t.Failed() {
			said := p.log.String()
			w.t.Logf("%s %d:\n%s", role, p.cmd.Process.Pid, said[max(0, len(said)-2000):])
		}
	})
	return p
}

// candidate starts a process and waits for its companion.
func (w *world) candidate() (p *process, companion int) {
	w.t.Helper()
	p = w.start("candidate")
	return p, p.ready()
}

// ready waits for a companion, and returns its process id.
func (p *process) ready() (companion int) {
	p.t.Helper()
	for {
		var kind string
		answer := p.do("event")
		if n, _ := fmt.Sscan(answer, &kind, &companion); n == 2 && kind == "ready" {
			return companion
		}
		p.t.Log(answer)
	}
}

// do makes the process do something, and returns its answer.
func (p *process) do(what string) string {
	p.t.Helper()
	p.tell(what)
	return p.answer()
}

func (p *process) tell(what string) {
	p.t.Helper()
	must.Get(fmt.Fprintln(p.in, what))(p.t)
}

func (p *process) answer() string {
	p.t.Helper()
	select {
	case line, ok := <-p.lines:
		require.True(p.t, ok, "the process has ended")
		return line
	case <-time.After(wait.Patience):
		require.FailNow(p.t, "the process does not answer")
		return ""
	}
}

// logs waits until the process, or its companion, has logged text.
func (p *process) logs(text string) {
	p.t.Helper()
	wait.For(p.t, "it logs "+text, func() bool { return p.log.Has(text) })
}

func (p *process) kill() {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Kill())
	_ = p.cmd.Wait()
}

func signal(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	require.NoError(t, syscall.Kill(pid, s))
}

// stop freezes a process, and returns once none of its threads runs.
func stop(t *testing.T, pid int) {
	t.Helper()
	require.NoError(t, processes.Freeze(pid))
}

// descriptors returns the open descriptors of a process.
func descriptors(t *testing.T, pid int) (open []string) {
	t.Helper()
	fds := must.Get(os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid)))(t)
	for _, fd := range fds {
		to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, fd.Name())) // it may be closed by now
		open = append(open, to)
	}
	return open
}

// program returns the name of the program that a process runs.
func program(pid int) string {
	name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)) // it may have ended
	return strings.TrimSpace(string(name))
}
