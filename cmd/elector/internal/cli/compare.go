package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/elector-go/elector/backend/dial"
	"github.com/elector-go/elector/cmd/elector/internal/compare"
	"github.com/elector-go/elector/cmd/elector/internal/page"
	"github.com/elector-go/elector/cmd/elector/internal/report"
	"github.com/elector-go/elector/strategy/catalog"
)

// comparison holds the flags of compare.
type comparison struct {
	compare.Config
	json, html, charts string
}

func newCompare() *cobra.Command {
	var c comparison
	cmd := &cobra.Command{
		Use:     "compare [flags]",
		Short:   "Compare strategies by measurement",
		Long:    compareHelp,
		Example: compareExamples,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.Command = commandLine(cmd)
			return c.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringSliceVar(&c.Strategies, "strategy", catalog.Names(), "`names` of strategies, with commas between")
	f.IntSliceVar(&c.N, "n", []int{3, 10, 50}, "`numbers` of candidates, with commas between")
	f.StringArrayVar(&c.Backends, "backend", []string{compare.Embedded}, "`URL` of a service; may be given several times. A "+dial.Usage())
	f.IntVar(&c.Changes, "changes", 60, "leader changes in each run. Those that are fewer than the candidates leave some that could not win")
	f.Float64Var(&c.Crashes, "crashes", 0.03, "`share` of the leader changes that are crashes, from 0 to 1; each takes as long as a session timeout")
	f.Float64Var(&c.Churn, "churn", 0.05, "`candidates` that leave, and as many that join, per leader change")
	f.DurationVar(&c.Delay, "delay", time.Millisecond, "round trip to the embedded service, at least")
	f.DurationVar(&c.TTL, "ttl", 0, "session timeout; 0: "+compare.EmbeddedTTL.String()+" on the embedded service, elsewhere the URL's timeout or the service's default")
	f.Uint64Var(&c.Seed, "seed", 1, "`number` that determines which changes are crashes, and who leaves")
	f.StringVar(&c.json, "json", "", "write all figures as JSON to this `file`; \"-\" is standard output, instead of the table")
	f.StringVar(&c.html, "html", "", "write a page with charts to this `file`")
	f.StringVar(&c.charts, "charts", "", "write the page's charts to this `directory`, an SVG file each; it is made if it is missing")
	complete(cmd)
	return cmd
}

// complete tells shells the possible values of flags.
func complete(cmd *cobra.Command) {
	var urls []string
	for _, scheme := range dial.Schemes() {
		urls = append(urls, scheme+"://")
	}
	for flag, values := range map[string][]string{
		"strategy":   catalog.Names(),
		"backend":    urls,
		"on-suspend": {"hold", "stop"},
		"log-format": {"text", "json"},
	} {
		if cmd.Flags().Lookup(flag) == nil {
			continue
		}
		if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace)); err != nil {
			panic(err) // it is registered twice: a mistake in this package
		}
	}
}

// commandLine returns the command with the flags that were given.
func commandLine(cmd *cobra.Command) string {
	words := []string{cmd.CommandPath()}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
			if f.Value.Type() != "stringArray" {
				values = []string{strings.Join(values, ",")}
			}
		}
		for _, v := range values {
			words = append(words, "--"+f.Name, quoted(v))
		}
	})
	return strings.Join(words, " ")
}

// quoted returns a word as a shell reads it.
func quoted(word string) string {
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_./:,=@%+", r)
	}) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

func (c *comparison) run(ctx context.Context, stdout, stderr io.Writer) error {
	if err := c.Validate(); err != nil {
		return usageError{err}
	}
	if c.html == "-" {
		return usageError{errors.New("--html -: name a file, which a browser can open")}
	}
	asked := []struct {
		flag, path string
		write      func(io.Writer, report.Report) error
		to         *output
	}{{flag: "json", path: c.json, write: writeJSON}, {flag: "html", path: c.html, write: page.Write}}
	for i := range asked {
		a := &asked[i]
		if a.path == "" || a.path == "-" {
			continue
		}
		var err error
		if a.to, err = create(a.path); err != nil {
			return usageError{errors.New("--" + a.flag + ": " + err.Error())}
		}
		defer a.to.discard()
	}
	if c.charts != "" {
		if err := os.MkdirAll(c.charts, 0o777); err != nil {
			return usageError{fmt.Errorf("--charts: %w", err)}
		}
	}
	show := newProgress(stderr)
	c.Progress, c.Ran = show.step, show.ran
	found, failed := compare.Run(ctx, c.Config)
	show.end()

	var errs []error
	for _, a := range asked {
		if a.to != nil {
			errs = append(errs, a.to.write(func(w io.Writer) error { return a.write(w, found) }))
		}
	}
	if c.charts != "" {
		for name, svg := range page.Charts(found) {
			errs = append(errs, os.WriteFile(filepath.Join(c.charts, name), svg, 0o666))
		}
	}
	if c.json == "-" {
		errs = append(errs, writeJSON(stdout, found))
	} else {
		errs = append(errs, printTable(stdout, found))
	}
	return errors.Join(append(errs, failed)...)
}

func writeJSON(w io.Writer, r report.Report) error {
	out := newEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(r)
}
