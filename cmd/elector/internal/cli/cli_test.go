package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/cmd/elector/internal/commandtest"
	"github.com/elector-go/elector/cmd/elector/internal/report"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
	"github.com/elector-go/elector/strategy/catalog"
)

func TestMain(m *testing.M) {
	commandtest.Main(Main)
	os.Exit(servertest.Main(m))
}

// small is a comparison that takes a moment, on any machine: no session times out.
var small = []string{"compare", "--strategy", "fair,unfair", "--n", "2,4", "--changes", "4", "--crashes", "0", "--delay", "0", "--ttl", "1m"}

// run runs a command line that must end with a code.
func run(t *testing.T, code int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	require.Equal(t, code, Run(t.Context(), args, &out, &errs), "%q: %s", args, &errs)
	return out.String(), errs.String()
}

func TestMisuse(t *testing.T) {
	t.Setenv(urlVariable, "")
	dir := t.TempDir()
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"comprae"}, `unknown command "comprae": there are agent, candidates, compare, completion, dashboard, designate, doctor, ls, man, resign, rm, run, status, transfer, undesignate, watch. Did you mean compare?`},
		{[]string{"Status"}, "watch. Did you mean status?"},
		{[]string{"cand"}, "watch. Did you mean candidates?"},
		{[]string{"rn"}, "watch. Did you mean rm or run?"},
		{[]string{"frob"}, "watch\n"},
		{[]string{""}, "watch\n"},
		{[]string{"compare", "fair"}, `unexpected argument "fair": elector compare takes flags only`},
		{[]string{"compare", "--frob"}, "unknown flag: --frob\n"},
		{[]string{"compare", "--strategies", "fair"}, "unknown flag: --strategies. Did you mean --strategy?"},
		{[]string{"status", "-json"}, "in -json. Did you mean --json?"},
		{[]string{"compare", "--strategy", "fairer"}, `--strategy "fairer": unknown: there are ` + strings.Join(catalog.Names(), ", ")},
		{[]string{"compare", "--n", "1"}, "--n 1: must be from 2"},
		{[]string{"compare", "--n", "three"}, `--n "three": give whole numbers, with commas between`},
		{[]string{"compare", "--ttl", "10"}, `--ttl "10": give a duration, such as 10ms or 4s`},
		{[]string{"compare", "--backend", "redis://h"}, `unknown scheme "redis": there are zk://`},
		{[]string{"compare", "--json", dir}, "is a directory: name a file"},
		{[]string{"compare", "--json", dir + "/none/x"}, "x cannot be written: "},
		{[]string{"compare", "--html", dir + "/none/x"}, "x cannot be written: "},
		{[]string{"compare", "--html", "-"}, "--html -: name a file"},
		{[]string{"compare", "--charts", "/dev/null/x"}, "--charts: mkdir /dev/null: not a directory"},
		{[]string{"run"}, "give the service's URL, the election's path, -- and the command"},
		{[]string{"run", "mem://", "/e", "true"}, "give the service's URL, the election's path, -- and the command"},
		{[]string{"run", "mem://", "/e", "--"}, "give the service's URL, the election's path, -- and the command"},
		{[]string{"run", "mem://", "--", "/e", "true"}, "give the service's URL, the election's path, -- and the command"},
		{[]string{"run", "redis://h", "/e", "--", "true"}, `unknown scheme "redis": there are zk://`},
		{[]string{"run", "mem://", "e", "--", "true"}, "a path that begins with /"},
		{[]string{"run", "mem://", "/e/", "--", "true"}, `Election: key "/e/"`},
		{[]string{"run", "mem://", "/e", "--http", "4040", "--", "true"}, `--http "4040": give an address and a port`},
		{[]string{"ls", "jobs"}, "a path begins with /"},
		{[]string{"run", "mem://", "/e", "--id", "\n", "--", "true"}, `ID "\n"`},
		{[]string{"run", "mem://", "/e", "--strategy", "fairer", "--", "true"}, `--strategy "fairer": unknown: there are ` + strings.Join(catalog.Names(), ", ")},
		{[]string{"run", "mem://", "/e", "--strategy", "kafka", "--id", "anna", "--", "true"}, `anna`},
		{[]string{"run", "mem://", "/e", "--rank", "1", "--", "true"}, "--rank: the strategy fair has no ranks"},
		{[]string{"run", "mem://", "/e", "--preempt-after", "0s", "--", "true"}, "--preempt-after: the strategy fair has no ranks"},
		{[]string{"run", "mem://", "/e", "--strategy", "ranked", "--preempt-after", "-1s", "--", "true"}, "--preempt-after -1s: must not be negative"},
		{[]string{"run", "mem://", "/e", "--rank", "best", "--", "true"}, `--rank "best": give whole numbers`},
		{[]string{"run", "mem://", "/e", "--grace", "-1s", "--", "true"}, "--grace -1s: must not be negative"},
		{[]string{"run", "mem://", "/e", "--ttl", "-1s", "--", "true"}, "TTL -1s"},
		{[]string{"run", "mem://", "/e", "--on-suspend", "wait", "--", "true"}, `--on-suspend "wait": give hold or stop`},
		{[]string{"run", "mem://", "/e", "--log-format", "xml", "--", "true"}, `--log-format "xml": give text or json`},
		{[]string{"run", "mem://", "/e", "--restart", "--once", "--", "true"}, "--restart and --once: give one of them"},
		{[]string{"run", "mem://", "/e", "--", "/none/such"}, "the command cannot be run: "},
		{[]string{"agent", "mem://"}, "unexpected argument \"mem://\": elector agent takes flags only"},
		{[]string{"agent", "--backend", "mem://"}, "--socket: where are processes to connect?"},
		{[]string{"agent", "--socket", dir + "/a"}, "--backend: which service?"},
		{[]string{"agent", "--socket", dir + "/a", "--backend", "redis://h"}, `unknown scheme "redis": there are zk://`},
		{[]string{"agent", "--socket", dir + "/a", "--backend", "mem://a", "--backend", "mem://b"}, "two services are memory"},
		{[]string{"agent", "--socket", dir + "/a", "--backend", "mem://", "--mode", "rw"}, `--mode "rw": give permissions in octal`},
		{[]string{"agent", "--socket", dir + "/a", "--backend", "mem://", "--mode", "4755"}, `--mode "4755": give permissions in octal`},
		{[]string{"man"}, "name one directory"},
		{[]string{"man", "a", "b"}, "name one directory"},
		{[]string{"man", "/dev/null/none"}, "make the directory first"},
		{[]string{"man", "/dev/null"}, "is not a directory"},
		{[]string{"completion", "tcsh"}, `unknown command "tcsh": there are bash, fish, powershell, zsh`},
		{[]string{"completion", "bash", "x"}, `"x"`},
		{[]string{"help", "comprae"}, `unknown command "comprae"`},
		{[]string{"transfer", "mem://", "/jobs/a"}, "the candidate's ID, such as"},
		{[]string{"designate"}, "the URL may be in ELECTOR_URL"},
		{[]string{"resign", "/jobs/a"}, "which service?"},
		{[]string{"watch", "jobs/a"}, "give the service's URL and the"},
		{[]string{"watch", "mem://", "/jobs/"}, `no "/" at the end`},
		{[]string{"rm", "mysql://x", "/jobs/a"}, "unknown scheme"},
		{[]string{"undesignate", "mem://", "/jobs/a", "--timeout", "0"}, "--timeout 0s: must be above"},
		{[]string{"status"}, "give the service's URL and the election's path"},
		{[]string{"status", "/jobs/reindex"}, "which service?"},
		{[]string{"run", "/jobs/reindex", "--", "true"}, "which service? Give its URL"},
		{[]string{"candidates", "/jobs/reindex", "mem://"}, "give the service's URL first"},
		{[]string{"ls", "mem://", "--timeout", "0"}, "--timeout 0s: must be above"},
		{[]string{"doctor"}, "which service?"},
		{[]string{"doctor", "mysql://h"}, "unknown scheme"},
		{[]string{"doctor", "mem://", "--timeout", "0"}, "--timeout 0s: must be above"},
		{[]string{"doctor", "mem://", "/jobs/"}, `key "/jobs/"`},
		{[]string{"doctor", "mem://", "/jobs", "x"}, "accepts at most 2 arg"},
	} {
		stdout, stderr := run(t, Misused, c.args...)
		assert.Contains(t, stderr, c.says, c.args)
		assert.Contains(t, stderr, "--help'", c.args)
		assert.Empty(t, stdout, c.args)
	}
	left := must.Get(os.ReadDir(dir))(t)
	assert.Empty(t, left)
}

// TestSecrets holds that no credentials are repeated.
func TestSecrets(t *testing.T) {
	stdout, stderr := run(t, Misused, "compare", "--backend", "zk://user:hunter2@h")
	assert.NotContains(t, stdout+stderr, "hunter2")
}

func TestHelp(t *testing.T) {
	for args, wants := range map[string][]string{
		"":               {"compare", "completion", "man", "EXIT STATUS", "ENVIRONMENT"},
		"--help":         {"compare", "EXIT STATUS"},
		"compare --help": {"EXIT STATUS", "130", "ENVIRONMENT", "Examples:", "elector compare --json -", "--html"},
		"run --help":     {"EXIT STATUS", "ELECTOR_TOKEN", "Examples:", "--grace"},
		"man --help":     {"EXIT STATUS", "Examples:"},
		"help man":       {"EXIT STATUS", "Examples:"},
		"completion":     {"bash", "zsh"},
		"--version":      {"elector version ", "go1."},
	} {
		stdout, stderr := run(t, OK, strings.Fields(args)...)
		assert.Empty(t, stderr, args)
		for _, want := range wants {
			assert.Contains(t, stdout, want, args)
		}
		for line := range strings.Lines(stdout) {
			if !strings.HasPrefix(strings.TrimSpace(line), "-") && !strings.HasPrefix(line, "    elector") { // flags, examples
				assert.LessOrEqual(t, len(line), 90, line)
			}
		}
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		stdout, _ := run(t, OK, "completion", shell)
		assert.Contains(t, stdout, "elector")
	}
	stdout, _ := run(t, OK, "__complete", "compare", "--strategy", "")
	for _, name := range catalog.Names() {
		assert.Contains(t, stdout, name+"\n")
	}
	stdout, _ = run(t, OK, "__complete", "comp")
	assert.Contains(t, stdout, "compare\t")
}

// Each command has help with its exit codes and examples, and is in docs/command.md.
func TestPage(t *testing.T) {
	page := must.Get(os.ReadFile("../../../../docs/command.md"))(t)
	for _, c := range newRoot().Commands() {
		assert.Contains(t, string(page), "| `elector "+c.Name(), c.Name())
		assert.Contains(t, c.Long, "EXIT STATUS", c.Name())
		assert.NotEmpty(t, c.Example, c.Name())
	}
}

func TestMan(t *testing.T) {
	dir := t.TempDir()
	run(t, OK, "man", dir)
	page := must.Get(os.ReadFile(filepath.Join(dir, "elector-compare.1")))(t)
	for _, section := range []string{".SH NAME", ".SH SYNOPSIS", ".SH EXIT STATUS", ".SH ENVIRONMENT", ".SH OPTIONS", ".SH EXAMPLE"} {
		assert.Contains(t, string(page), section)
	}
}

// TestTable holds what is printed where, and that a bar is drawn only on a terminal. A crash takes a session
// timeout, so time is simulated.
func TestTable(t *testing.T) { synctest.Test(t, printsTable) }

func printsTable(t *testing.T) {
	stdout, stderr := run(t, OK, append(small, "--crashes", "0.25")...)
	for _, want := range []string{
		"4 leader changes in each run, 1 of them crashes; churn 0.05; seed 1; session timeout 1m0s\n", "mem://\n",
		"leaderless", "growth\n", "counted by the service itself", "Jain  ",
	} {
		assert.Contains(t, stdout, want)
	}
	assert.Regexp(t, `(?m)^ +fair +4( +[0-9.]+(ns|µs|ms|s|)){4} +3 +`, stdout)
	assert.Equal(t, "mem://, fair, 2 candidates: done\nmem://, fair, 4 candidates: done\nmem://, unfair, 2 candidates: done\nmem://, unfair, 4 candidates: done\n", stderr)
}

// TestFiles holds that files are written whole, and that the standard output is nothing but JSON if that is
// requested.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	at, page, charts := filepath.Join(dir, "report.json"), filepath.Join(dir, "report.html"), filepath.Join(dir, "charts")
	require.NoError(t, os.WriteFile(at, []byte(strings.Repeat("old", 1<<20)), 0o600))
	stdout, _ := run(t, OK, append(small, "--json", at, "--html", page, "--charts", charts)...)
	assert.Contains(t, stdout, "\nmem://\n")
	text := must.Get(os.ReadFile(at))(t)
	r := parsed(t, text)
	assert.Len(t, r.Runs, 4)
	assert.Equal(t, "elector compare --strategy fair,unfair --n 2,4 --changes 4 --crashes 0 --delay 0s --ttl 1m0s --json "+at+" --html "+page+" --charts "+charts, r.Method.Command)
	html := must.Get(os.ReadFile(page))(t)
	assert.Contains(t, string(html), "</html>")
	svg := must.Get(os.ReadFile(filepath.Join(charts, "cost-mem.svg")))(t)
	assert.Contains(t, string(svg), "</svg>")
	left := must.Get(os.ReadDir(dir))(t)
	assert.Len(t, left, 3)

	stdout, _ = run(t, OK, append(small, "--json", "-")...)
	assert.Len(t, parsed(t, []byte(stdout)).Runs, 4)
}

// parsed reads a report, and holds that writing it again produces the same.
func parsed(t *testing.T, text []byte) (r report.Report) {
	t.Helper()
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	require.NoError(t, in.Decode(&r))
	assert.Equal(t, report.Schema, r.Schema)
	var again bytes.Buffer
	require.NoError(t, writeJSON(&again, r))
	assert.Equal(t, string(text), again.String())
	return r
}

// TestUnreachable holds that an unreachable service is a failure, and that findings on others are reported.
func TestUnreachable(t *testing.T) {
	stdout, stderr := run(t, Failed, append(small, "--backend", "zk://127.0.0.1:1?timeout=1s", "--backend", "mem://")...)
	assert.Contains(t, stderr, "the service cannot be used")
	assert.Contains(t, stdout, "mem://\n")
	assert.Contains(t, stdout, "* fair, 2 candidates: failed: the service cannot be used")
	assert.Contains(t, stderr, "fair, 2 candidates: failed\n")
	assert.Regexp(t, `(?m)^ +fair \* +2( +-)+$`, stdout, "nothing was measured, and no zeros are printed")
}

// TestInterrupt interrupts the command as a user does: after its first run, of so many that it would run for
// minutes.
func TestInterrupt(t *testing.T) {
	at := filepath.Join(t.TempDir(), "report.json")
	var n []string
	for i := range 200 {
		n = append(n, strconv.Itoa(2+i))
	}
	p := commandtest.New(t, os.Args[0], "compare", "--strategy", "fair", "--n", strings.Join(n, ","), "--changes", "100", "--crashes", "0", "--ttl", "1m", "--json", at)
	var stdout wait.Log
	p.Cmd.Stdout = &stdout
	p.Begin()
	p.Says(" 2 candidates: done")
	p.Signal(syscall.SIGINT)
	assert.Equal(t, Interrupted, p.Exit())
	assert.Contains(t, p.Log.String(), "elector: interrupted") // the message about cleaning up comes separately, and may be too late
	text := must.Get(os.ReadFile(at))(t)
	r := parsed(t, text)
	require.Less(t, len(r.Runs), len(n))
	assert.Empty(t, r.Runs[0].Truncated)
	if last := r.Runs[len(r.Runs)-1]; last.Truncated != "" { // else it was between two runs
		assert.Equal(t, "interrupted", last.Truncated)
		assert.Regexp(t, `\* fair, \d+ candidates: ended after \d+ of 100 leader changes: interrupted\n`, stdout.String())
	}
}

// TestInterruptTwice holds that a second interrupt waits for nothing: here for a reader of the output, a
// timeline of the herd that exceeds a pipe's buffer.
func TestInterruptTwice(t *testing.T) {
	unread, stdout, err := os.Pipe()
	require.NoError(t, err)
	defer unread.Close()
	defer stdout.Close()
	p := commandtest.New(t, os.Args[0], "compare", "--n", "250", "--changes", "3", "--crashes", "0", "--delay", "0", "--ttl", "1m", "--json", "-")
	p.Cmd.Stdout = stdout
	p.Begin()
	p.Says("parentwatch, 250 candidates: done")
	p.Signal(syscall.SIGINT)
	p.Says("interrupt again")
	p.Insist(syscall.SIGINT)
	assert.Equal(t, Interrupted, p.Exit())
}
