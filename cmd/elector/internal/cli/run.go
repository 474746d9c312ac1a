package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/dial"
	runner "github.com/elector-go/elector/cmd/elector/internal/run"
	"github.com/elector-go/elector/cmd/elector/internal/watchdog"
	"github.com/elector-go/elector/internal/asynclog"
	"github.com/elector-go/elector/lastwill"
	"github.com/elector-go/elector/strategy/catalog"
)

func newRun() *cobra.Command {
	c := runner.Config{Stdout: os.Stdout, Stderr: os.Stderr}
	var suspend, format string
	cmd := &cobra.Command{
		Use:     "run [URL] ELECTION [flags] -- COMMAND [ARG...]",
		Short:   "Run a command while this process leads",
		Long:    runHelp,
		Example: runExamples,
		Args: func(cmd *cobra.Command, args []string) error {
			if dash := cmd.ArgsLenAtDash(); dash < 1 || dash == len(args) || electionArgs(cmd, args[:dash]) != nil {
				return usageError{fmt.Errorf("give the service's URL, the election's path, -- and the command, such as: elector run etcd://127.0.0.1 /jobs/report -- ./report --all; the URL may be in %s", urlVariable)}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			dash := cmd.ArgsLenAtDash()
			c.Command = args[dash:]
			if c.URL, c.Election, err = target(args[:dash]); err != nil {
				return err
			}
			if !cmd.Flags().Changed("rank") {
				c.Rank = nil
			}
			c.Preempt = cmd.Flags().Changed("preempt-after")
			switch suspend {
			case "hold", "stop":
				c.Stop = suspend == "stop"
			default:
				return usageError{fmt.Errorf("--on-suspend %q: give hold or stop", suspend)}
			}
			if c.Log, err = logger(cmd.ErrOrStderr(), format); err != nil {
				return usageError{err}
			}
			if !term.IsTerminal(int(os.Stdin.Fd())) { // a background process group would be stopped when it reads from one
				c.Stdin = os.Stdin
			}
			return lead(cmd.Context(), c)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&c.ID, "id", "", "`name` of this candidate; without it the host's name")
	f.StringVar(&c.Value, "value", "", "`text` that others see of this candidate, such as its address")
	f.StringVar(&c.Strategy, "strategy", "fair", "`name` of the strategy; all candidates of an election need the same: "+strings.Join(catalog.Names(), ", "))
	f.Int64SliceVar(&c.Rank, "rank", nil, "`numbers`, with commas between, by which ranked compares candidates: the highest leads")
	f.DurationVar(&c.HoldOff, "preempt-after", 0, "with ranked: ask a leader of lesser rank to go when this candidate has been better for so long, such as 0s; without it wait until it goes")
	f.DurationVar(&c.TTL, "ttl", 0, "session timeout, half a second at least; 0: the URL's timeout, or the service's default")
	f.DurationVar(&c.Grace, "grace", 10*time.Second, "time between SIGTERM and SIGKILL; an eighth of the session timeout at most when leadership is lost")
	f.StringVar(&suspend, "on-suspend", "hold", "`what` to do out of touch with the service: hold runs the command for as long as nobody else can lead, stop ends it at once")
	f.BoolVar(&c.Restart, "restart", false, "restart a command that ends by itself after 1s to 30s, and continue to lead")
	f.BoolVar(&c.Once, "once", false, "exit when the command ends, also if it was ended as the term was to end")
	f.StringVar(&c.Agent, "agent", "", "`path` of the socket of \"elector agent\", which ends the session should elector die; without it elector has a companion of its own for that")
	f.StringVar(&c.HTTP, "http", "", "`address`, such as :4040, at which /leader, /replica, /healthz, /status and /metrics answer; without it none")
	f.StringVar(&c.Label, "label", "", "`key`, such as elector/feed, of a label that has the value leader on the Pod of Kubernetes that leads, for a Service to select; without it none")
	f.StringVar(&format, "log-format", "text", "`form` of the log lines on standard error: text or json; the last words, such as why elector ends, are plain")
	complete(cmd)
	return cmd
}

// logger writes to w, in the form that a flag names. It does not block: the caller calls Flush.
func logger(w io.Writer, format string) (*slog.Logger, error) {
	switch format {
	case "text":
		return asynclog.New(slog.New(slog.NewTextHandler(w, nil))), nil
	case "json":
		return asynclog.New(slog.New(slog.NewJSONHandler(w, nil))), nil
	}
	return nil, fmt.Errorf("--log-format %q: give text or json", format)
}

// accompanied opens the service, and makes a companion or agent end the session if this process dies. A
// companion is this program, executed again: it does all that comes before this call, and gets no further.
func accompanied(ctx context.Context, c runner.Config) (*lastwill.Backend, error) {
	b, err := lastwill.Start(func() (backend.Backend, error) {
		b, err := dial.Open(context.WithoutCancel(ctx), c.URL, dial.WithLogger(c.Log))
		if err != nil {
			return nil, usageError{err}
		}
		return b, nil
	}, lastwill.Options{
		Agent: c.Agent, Optional: true, Logger: c.Log,
		OnEvent: func(e lastwill.Event) {
			switch {
			case e.Kind == lastwill.Ready && c.Agent != "":
				c.Log.Info("should elector die, the agent ends its session", "agent", c.Agent)
			case e.Kind == lastwill.Ready:
				c.Log.Info("should elector die, its companion ends its session", "pid", e.PID)
				watchdog.Spare(e.PID)
			case e.Kind == lastwill.Lost:
				watchdog.Spare(0)
			}
		},
	})
	var wrong usageError
	if errors.As(err, &wrong) {
		return nil, wrong
	}
	return b, err
}

// surviveReaders keeps the process alive when nobody reads its standard output or error any more: that is no
// reason to stop serving.
func surviveReaders() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// lead opens the service, and runs the command while this process leads.
func lead(ctx context.Context, c runner.Config) error {
	if err := c.Validate(); err != nil {
		return usageError{err}
	}
	defer asynclog.Flush(context.Background(), c.Log, asynclog.AtExit)
	if err := watchdog.Adopt(); err != nil { // before there is a companion, which is a child
		return err
	}
	b, err := accompanied(ctx, c)
	if err != nil {
		return err
	}
	surviveReaders()
	if os.Getpid() != 1 { // when process 1 of a container dies, the kernel kills all others
		c.Hold = b.Hold
	}
	err = runner.Run(ctx, b, c)
	if closed := b.Close(); closed != nil {
		c.Log.Warn("the service's client", "err", closed)
	}
	if errors.Is(err, elector.ErrConfig) {
		return usageError{errors.New(strings.ReplaceAll(err.Error(), "elector: Config.", ""))} // those are Go's names
	}
	return err
}
