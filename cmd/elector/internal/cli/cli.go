// Package cli is the command line of elector.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	runner "github.com/elector-go/elector/cmd/elector/internal/run"
	"github.com/elector-go/elector/cmd/elector/internal/watchdog"
	"github.com/elector-go/elector/internal/asynclog"
)

// Exit codes.
const (
	OK          = 0
	Failed      = 1
	Misused     = 2
	Interrupted = 130
)

// sameInterrupt is how soon after an interrupt another one counts as the same.
const sameInterrupt = 300 * time.Millisecond

var errInterrupted = errors.New("interrupted")

// usageError is a mistake in the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Main runs the command line of the process, and returns its exit code.
//
// The first interrupt ends the context, so that the running command cleans up and reports what it has; the
// second ends the process at once.
func Main() int {
	if len(os.Args) > 1 && os.Args[1] == watchdog.Word {
		return watchdog.Main(os.Args[2:])
	}
	ctx, interrupt := context.WithCancelCause(context.Background())
	defer interrupt(nil)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as with nohup(1)
		signal.Notify(signals, syscall.SIGHUP)
	}
	go func() {
		<-signals
		interrupt(errInterrupted)
		go asynclog.Print(os.Stderr, asynclog.AtExit, "\nelector: interrupted: cleaning up; interrupt again to end at once and leave things behind\n")
		// Some, such as timeout(1), pass on one interrupt twice.
		for first := time.Now(); time.Since(first) < sameInterrupt; {
			<-signals
		}
		os.Exit(Interrupted)
	}()
	return Run(ctx, os.Args[1:], os.Stdout, os.Stderr)
}

// Run runs a command line, and returns its exit code. Errors are printed to stderr.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	addCobras(root)
	at, err := root.ExecuteContextC(ctx)
	var usage usageError
	var exit runner.Exit
	var coded codedError
	switch {
	case err == nil:
		return OK
	case errors.As(err, &exit): // the command has said why
		return exit.Code
	}
	code, text := Failed, fmt.Sprintf("elector: %s\n", complaint(err))
	switch {
	case errors.Is(err, errInterrupted): // it may wrap more
		code = Interrupted
	case errors.As(err, &usage):
		code, text = Misused, fmt.Sprintf("%s\nSee '%s --help'.\n", text, at.CommandPath())
	case errors.As(err, &coded):
		code = coded.code
	}
	asynclog.Print(stderr, asynclog.AtExit, text)
	return code
}

// complaint returns the text of an error of any package.
func complaint(err error) string { return strings.TrimPrefix(printable(err.Error()), "elector: ") }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:     "elector",
		Short:   "Look at leader election",
		Long:    rootHelp,
		Version: version(),
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		// Run prints them.
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usageError{plain(cmd, err)} })
	root.AddCommand(newStatus(), newCandidates(), newList(), newWatch(), newDashboard(), newResign(), newTransfer(), newDesignate(), newUndesignate(), newRemove(), newRun(), newAgent(), newDoctor(), newCompare(), newMan())
	return root
}

// addCobras adds Cobra's own commands, which would accept any argument and show help. The root must have its
// output.
func addCobras(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "completion":
			for _, shell := range c.Commands() {
				shell.Args = noArgs
			}
			c.Args = noArgs
			c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		case "help":
			c.Args = func(_ *cobra.Command, args []string) error {
				cmd, rest, err := root.Find(args)
				if err != nil {
					return usageError{err}
				}
				return noArgs(cmd, rest)
			}
		}
	}
}

// plain removes names of Go functions from an error that names flag and value. For an unknown flag, it
// suggests another.
func plain(cmd *cobra.Command, err error) error {
	var none *pflag.NotExistError
	if errors.As(err, &none) {
		var all []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { all = append(all, "--"+f.Name) })
		name := cmp.Or(none.GetSpecifiedShortnames(), none.GetSpecifiedName()) // -json is a list of short names
		return fmt.Errorf("%w%s", err, didYouMean("--"+name, all))
	}
	var bad *pflag.InvalidValueError
	if !errors.As(err, &bad) {
		return err
	}
	return fmt.Errorf("--%s %q: give %s", bad.GetFlag().Name, bad.GetValue(), kinds[bad.GetFlag().Value.Type()])
}

// kinds describe the values of flags by type.
var kinds = map[string]string{
	"intSlice":    "whole numbers, with commas between, such as 3,10,50",
	"stringSlice": "words, with commas between",
	"int64Slice":  "whole numbers, with commas between, such as 12,7",
	"int":         "a whole number",
	"uint64":      "a whole number from 0",
	"float64":     "a number, such as 0.1",
	"duration":    "a duration, such as 10ms or 4s",
	"bool":        "true or false",
}

// noArgs refuses arguments, and names the commands if the argument was meant to be one.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if !cmd.HasSubCommands() {
		return usageError{fmt.Errorf("unexpected argument %q: %s takes flags only", args[0], cmd.CommandPath())}
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return usageError{fmt.Errorf("unknown command %q: there are %s%s", args[0], strings.Join(names, ", "), didYouMean(args[0], names))}
}

// didYouMean returns an error's end for a name that is none of names: it suggests those that Cobra finds
// similar. A third of the letters may be wrong, or the end may be missing.
func didYouMean(name string, names []string) string {
	all := &cobra.Command{SuggestionsMinimumDistance: max(len(name)/3, 1)}
	for _, n := range names {
		all.AddCommand(&cobra.Command{Use: n, Run: func(*cobra.Command, []string) {}})
	}
	near := all.SuggestionsFor(name)
	if name == "" || len(near) == 0 {
		return ""
	}
	return ". Did you mean " + strings.Join(near, " or ") + "?"
}

// release is the version that the linker writes into the binaries of a release.
var release string

// version returns the version of the source.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v, modified := cmp.Or(release, info.Main.Version), ""
	if v == "" {
		v = "(devel)"
	}
	revision := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && v == "(devel)":
			revision = " " + s.Value
		case s.Key == "vcs.modified" && s.Value == "true" && v == "(devel)":
			modified = " modified"
		}
	}
	return v + revision + modified + ", " + info.GoVersion
}
