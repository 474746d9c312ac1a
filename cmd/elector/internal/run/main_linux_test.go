package run_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/cmd/elector/internal/cli"
	"github.com/elector-go/elector/cmd/elector/internal/commandtest"
	"github.com/elector-go/elector/cmd/elector/internal/watchdog"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/wait"
)

// lateWatchdog names a folder that the first watchdog creates. It is then late, as on a busy machine.
const lateWatchdog = "ELECTOR_TEST_LATE_WATCHDOG"

func TestMain(m *testing.M) {
	if dir := os.Getenv(lateWatchdog); dir != "" && len(os.Args) > 1 && os.Args[1] == watchdog.Word && os.Mkdir(dir, 0o700) == nil {
		time.Sleep(5 * time.Second)
	}
	commandtest.Main(cli.Main)
	os.Exit(servertest.Main(m))
}

// A job is a shell command that reports its events in a folder.
type job struct {
	t   testing.TB
	dir string
}

func newJob(t testing.TB) *job { return &job{t, t.TempDir()} }

// begins checks whether a process of an earlier run of the job is alive, and notes its own.
const begins = `
for p in $(cat $0/pids 2>/dev/null); do
	if [ -e /proc/$p/stat ] && ! grep -q ') Z ' /proc/$p/stat 2>/dev/null; then echo "overlap $p $ELECTOR_TOKEN" >> $0/log; fi
done
echo $$ >> $0/pids
`

// Parts of scripts, to be joined. $0 is the job's folder.
const (
	// heeds ends upon SIGTERM, with 0.
	heeds = begins + `trap 'echo term >> $0/log; exit 0' TERM
`
	// ignores does nothing upon SIGTERM, and neither does what it starts.
	ignores = begins + `trap '' TERM
`
	forks = `sh -c 'echo $$ >> $0/pids; exec sleep 1000' $0 &
`
	escapes = `setsid sh -c 'echo $$ >> $0/pids; exec sleep 1000' $0 &
`
	// waits waits until it is told to end. A shell reports a sleep that ended first, and dies of that if
	// nobody reads it.
	waits = `echo "began $ELECTOR_TOKEN $ELECTOR_ID $ELECTOR_ELECTION" >> $0/log
while :; do sleep 1000 & wait $! 2>/dev/null; done
`
)

// command returns a script of the job.
func (j *job) command(script string) []string { return []string{"sh", "-c", script, j.dir} }

// log returns the job's log, line by line.
func (j *job) log() []string {
	text, err := os.ReadFile(filepath.Join(j.dir, "log"))
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(j.t, err)
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// told counts the lines of the log that match.
func (j *job) told(pattern string) (n int) {
	for _, line := range j.log() {
		if regexp.MustCompile(pattern).MatchString(line) {
			n++
		}
	}
	return n
}

// pids returns the process ids of all processes that the job has had.
func (j *job) pids() []string {
	text, _ := os.ReadFile(filepath.Join(j.dir, "pids"))
	return strings.Fields(string(text))
}

// alive returns those of these processes that have not ended.
func alive(pids []string) (all []string) {
	for _, pid := range pids {
		if stat, err := os.ReadFile("/proc/" + pid + "/stat"); err == nil && !bytes.Contains(stat, []byte(") Z ")) {
			all = append(all, pid)
		}
	}
	return all
}

// await waits until the job has logged lines that match, and has had so many processes.
func (j *job) await(pattern string, lines, processes int) {
	j.t.Helper()
	wait.For(j.t, pattern, func() bool { return j.told(pattern) >= lines && len(j.pids()) >= processes })
}
