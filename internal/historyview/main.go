// Command historyview shows saved histories of elections: of a failed rule of the conformance suite, or of
// several processes.
//
//	historyview check FILE…        checks the recordings again, and lists the violations
//	historyview list FILE…         lists the events
//	historyview draw PAGE FILE…    draws claims and commits, as far as they can be explained
//
// Several files are merged. Promises beyond those that every history is checked for are in the file, or are
// given by flags; see history.Options.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/elector-go/elector/conformance/history"
)

const usage = `usage: historyview [flags] check FILE…
       historyview [flags] list FILE…
       historyview [flags] draw PAGE.html FILE…
`

var (
	errUsage = errors.New("what to do is missing, or a file")
	errWrong = errors.New("the history is wrong")
)

func main() {
	err := run(os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		fmt.Fprintf(os.Stderr, "historyview: %v\n%s", err, usage)
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "historyview:", err)
		os.Exit(1)
	}
}

func run(args []string, out, errs io.Writer) error {
	flags := flag.NewFlagSet("historyview", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.Usage = func() { fmt.Fprint(errs, usage); flags.PrintDefaults() }
	var o history.Options
	flags.BoolVar(&o.Ordered, "ordered", false, "candidates lead in the order in which they have enrolled")
	flags.BoolVar(&o.Dense, "dense", false, "each token is one more than the last")
	flags.BoolVar(&o.Contexts, "contexts", false, "Contexts of two terms never live at once")
	flags.BoolVar(&o.OthersWrite, "others-write", false, "others write to the keys of commits, too: look at the claims only")
	flags.DurationVar(&o.Bound, "bound", 0, "somebody leads so long after the last fault")
	flags.DurationVar(&o.Patience, "patience", time.Minute, "how long to look for an order that explains all")
	if err := flags.Parse(args); err != nil {
		return err
	}
	args = flags.Args()
	if len(args) < 2 || args[0] == "draw" && len(args) < 3 {
		return errUsage
	}
	what, files := args[0], args[1:]
	page := ""
	if what == "draw" {
		page, files = files[0], files[1:]
	}
	h, err := history.Merge(files...)
	if err != nil {
		return err
	}
	for _, file := range h.Torn {
		fmt.Fprintf(out, "%s: its last line was cut off, and is left out\n", file)
	}
	o = promised(o, h.Promised)
	switch what {
	case "check":
		return check(h, o, out)
	case "list":
		for _, e := range h.Events {
			fmt.Fprintln(out, e)
		}
		return nil
	case "draw":
		return h.Draw(page, o)
	}
	return errUsage
}

// promised returns what a file or a flag says.
func promised(o, by history.Options) history.Options {
	o.Ordered = o.Ordered || by.Ordered
	o.Dense = o.Dense || by.Dense
	o.OthersWrite = o.OthersWrite || by.OthersWrite
	o.Contexts = o.Contexts || by.Contexts
	if o.Bound == 0 {
		o.Bound = by.Bound
	}
	return o
}

func check(h *history.History, o history.Options, out io.Writer) error {
	found := h.Check(o)
	for _, v := range found {
		fmt.Fprintln(out, v)
	}
	result := h.Linearizable(o).Result
	if result != porcupine.Ok {
		fmt.Fprintf(out, "linearizable: %s: draw it to see how far it can be explained\n", result)
	}
	fmt.Fprintf(out, "%d events, %d terms\n", len(h.Events), len(h.Terms()))
	if len(found) > 0 || result == porcupine.Illegal {
		return errWrong
	}
	return nil
}
