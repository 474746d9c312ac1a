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

// lateWatchdog names a folder that the first watchdog makes, and then is late, as on a busy machine.
const lateWatchdog = "ELECTOR_TEST_LATE_WATCHDOG"

func TestMain(m *testing.M) {
	if dir := os.Getenv(lateWatchdog); dir != "" && len(os.Args) > 1 && os.Args[1] == watchdog.Word && os.Mkdir(dir, 0o700) == nil {
		time.Sleep(5 * time.Second)
	}
	commandtest.Main(cli.Main)
	os.Exit(servertest.Main(m))
}

// A job is a command of a shell that tells in a folder what becomes of it.
type job struct {
	t   testing.TB
	dir string
}

func newJob(t testing.TB) *job { return &job{t, t.TempDir()} }

// begins looks whether a process of an earlier run of the job lives on, and notes its own.
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
	// waits does so until it is told to end. A shell tells of a sleep that was ended first, and
	// dies of that if nobody reads it.
	waits = `echo "began $ELECTOR_TOKEN $ELECTOR_ID $ELECTOR_ELECTION" >> $0/log
while :; do sleep 1000 & wait $! 2>/dev/null; done
`
)

// command is a script of the job's.
func (j *job) command(script string) []string { return []string{"sh", "-c", script, j.dir} }

// log is what the job has told, line by line.
func (j *job) log() []string {
	text, err := os.ReadFile(filepath.Join(j.dir, "log"))
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(j.t, err)
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// told counts the lines of its log that match.
func (j *job) told(pattern string) (n int) {
	for _, line := range j.log() {
		if regexp.MustCompile(pattern).MatchString(line) {
			n++
		}
	}
	return n
}

// pids are those of all processes of the job that there were.
func (j *job) pids() []string {
	text, _ := os.ReadFile(filepath.Join(j.dir, "pids"))
	return strings.Fields(string(text))
}

// alive are those of these processes that have not ended.
func alive(pids []string) (all []string) {
	for _, pid := range pids {
		if stat, err := os.ReadFile("/proc/" + pid + "/stat"); err == nil && !bytes.Contains(stat, []byte(") Z ")) {
			all = append(all, pid)
		}
	}
	return all
}

// await waits until the job has told lines that match, and has had so many processes.
func (j *job) await(pattern string, lines, processes int) {
	j.t.Helper()
	wait.For(j.t, pattern, func() bool { return j.told(pattern) >= lines && len(j.pids()) >= processes })
}
