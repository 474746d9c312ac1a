// Fencing shows why a leader sends its token with every write outside the coordination service, and how a
// database and a file store refuse the late write of a leader that has been replaced.
//
//	go run ./examples/fencing
//
// needs only Go; with -backend zk://127.0.0.1:2181 the tokens are those of a real service. table.go and
// files.go are the two stores, unfenced.go shows the effect of no tokens, and docs/fencing.md is the theory.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/dial"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/strategy/fair"
)

func main() {
	url := flag.String("backend", "mem://", dial.Usage())
	election := flag.String("election", "/invoices", "path of the election")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, *url, *election); err != nil {
		fmt.Fprintln(os.Stderr, "fencing:", err)
		os.Exit(1)
	}
}

// run tells the story in a directory of its own.
func run(ctx context.Context, out io.Writer, url, election string) (err error) {
	anna, ben, done, err := links(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	dir, err := os.MkdirTemp("", "fencing-")
	if err != nil {
		return err
	}
	return errors.Join(story(ctx, out, dir, election, anna, ben), os.RemoveAll(dir))
}

// links returns two links to one service. The caller calls done in the end.
func links(ctx context.Context, url string) (anna, ben link, done func() error, err error) {
	if url == "mem://" {
		service := memory.New(memory.Options{DefaultTTL: time.Second})
		return service.Client("anna"), service.Client("ben"), func() error { return nil }, nil
	}
	b, err := dial.Open(ctx, url)
	if err != nil {
		return nil, nil, nil, err
	}
	return &remote{Backend: b}, &remote{Backend: b}, b.Close, nil
}

// job is the name of the row and the file.
const job = "invoices"

// story: anna leads, and pauses between a check and the write that follows it. ben takes over, and continues
// the job. Then anna's write arrives.
func story(ctx context.Context, out io.Writer, dir, election string, annas, bens link) (err error) {
	say := newSayer(out)
	say("", "the job: send 500 invoices, and note how many are sent; session timeout %v", annas.Limits().DefaultTTL)
	files, err := OpenFiles(dir)
	if err != nil {
		return err
	}
	anna, err := newProcess(ctx, annas, election, "anna", dir, files)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, anna.close()) }()
	ben, err := newProcess(ctx, bens, election, "ben", dir, files)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ben.close()) }()

	old, err := anna.lead(ctx, say)
	if err != nil {
		return err
	}
	if err := anna.note(ctx, say, old, "100 sent"); err != nil {
		return err
	}
	say("anna", "asks whether its term holds: %t. Goes on to note %q, and is PAUSED right before", old.Valid(), "101 sent")
	anna.link.Suspend() // no heartbeats from a paused process
	if _, is := anna.link.(*remote); is {
		say("", "  (the wait for the session timeout is left out: its session is ended now)")
	}

	current, err := ben.lead(ctx, say) // as soon as anna's session has timed out
	if err != nil {
		return err
	}
	if err := ben.note(ctx, say, current, "250 sent"); err != nil {
		return err
	}

	anna.link.Resume()
	say("anna", "WAKES UP, and does what it was about to do")
	if err := anna.note(ctx, say, old, "101 sent"); err != nil {
		return err
	}
	say("anna", "asks whether its term holds: %t. Too late to help", old.Valid())
	return ben.tell(ctx, say)
}

// A process is a candidate with its link to the service, its connection to the
// database, and access to the file store.
type process struct {
	elector.Elector
	name  string
	link  link
	table *Table
	files *Files
}

func newProcess(ctx context.Context, link link, election, name, dir string, files *Files) (*process, error) {
	e, err := elector.New(elector.Config{Backend: link, Strategy: fair.Strategy{}, Election: election, ID: name})
	if err != nil {
		return nil, err
	}
	table, err := OpenTable(ctx, filepath.Join(dir, "jobs.db"))
	if err != nil {
		return nil, errors.Join(err, e.Close(ctx))
	}
	return &process{Elector: e, name: name, link: link, table: table, files: files}, nil
}

func (p *process) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(p.Close(ctx), p.table.Close())
}

// lead waits until the process leads. It claims the row and the file before it reads.
func (p *process) lead(ctx context.Context, say sayer) (*elector.Term, error) {
	t, err := p.Campaign(ctx)
	if err != nil {
		return nil, err
	}
	say(p.name, "LEADS with token %d", t.Token())
	if err := errors.Join(p.table.Claim(ctx, t.Token(), job), p.files.Claim(t.Token())); err != nil {
		return nil, err
	}
	value, _, err := p.table.Get(ctx, job)
	if err == nil {
		say(p.name, "claims row and file with its token; then reads: %q", value)
	}
	return t, err
}

// note writes the progress of the job, in four places, as the leader of term t.
func (p *process) note(ctx context.Context, say sayer, t *elector.Term, value string) error {
	say(p.name, "notes %q with token %d", value, t.Token())
	for _, place := range []struct {
		name string
		err  error
	}{
		{"row", p.table.Update(ctx, t.Token(), job, value)},
		{"file", p.files.Put(t.Token(), job, []byte(value))},
		{"unfenced row", p.table.PutUnfenced(ctx, job, value)},
		{"unfenced file", putUnfenced(p.files.dir, job, value)},
	} {
		switch {
		case place.err == nil:
			say("", "  %-13s written", place.name)
		case errors.Is(place.err, errOldToken):
			say("", "  %-13s REFUSED: %v", place.name, place.err)
		default:
			return place.err
		}
	}
	return nil
}

// tell prints the final contents.
func (p *process) tell(ctx context.Context, say sayer) error {
	row, token, err := p.table.Get(ctx, job)
	if err != nil {
		return err
	}
	file, err := p.files.Get(job)
	if err != nil {
		return err
	}
	plainRow, err := p.table.GetUnfenced(ctx, job)
	if err != nil {
		return err
	}
	plainFile, err := getUnfenced(p.files.dir, job)
	if err != nil {
		return err
	}
	lost := func(value string) string {
		if value == row {
			return ""
		}
		return ": LOST UPDATE. Who goes on from here sends invoices twice"
	}
	say("", "in the end:")
	say("", "  row           %q, token %d", row, token)
	say("", "  file          %q, token %d", file, p.files.Highest())
	say("", "  unfenced row  %q%s", plainRow, lost(plainRow))
	say("", "  unfenced file %q%s", plainFile, lost(plainFile))
	return nil
}

// sayer prints a line with the time since the start.
type sayer func(who, format string, args ...any)

func newSayer(out io.Writer) sayer {
	start := time.Now()
	return func(who, format string, args ...any) {
		fmt.Fprintf(out, "%7.3fs  %-5s %s\n", time.Since(start).Seconds(), who, fmt.Sprintf(format, args...))
	}
}
