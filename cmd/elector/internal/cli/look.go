package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rivo/uniseg"
	"github.com/spf13/cobra"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/dial"
	"github.com/elector-go/elector/inspect"
)

// Exit codes of the commands that look at one election.
const (
	Leaderless = 3
	NoElection = 4
)

// urlVariable names the environment variable with the service's URL.
const urlVariable = "ELECTOR_URL"

// codedError is a failure with an exit code of its own.
type codedError struct {
	error
	code int
}

func (e codedError) Unwrap() error { return e.error }

// A looker is a command that does one thing with one service, by package inspect.
type looker struct {
	timeout time.Duration
	json    bool
}

// look is a command's action on one service. It returns the result for JSON, and the rows of a table. An
// error with a result says what is wrong with it: the result is printed anyway. id is the last argument of a
// command that takes a candidate's ID.
type look func(ctx context.Context, in *inspect.Inspector, path, id string) (result any, rows [][]string, err error)

func newStatus() *cobra.Command {
	return newView("status", "Say who leads", statusHelp, (*inspect.Inspector).Leader, statusRows)
}

func newCandidates() *cobra.Command {
	return newView("candidates", "List who stands, in order", candidatesHelp, (*inspect.Inspector).Candidates, candidateRows)
}

// newView returns a command that shows one election.
func newView(name, short, long string, ask func(*inspect.Inspector, context.Context, string) (inspect.View, error), rows func(inspect.View) [][]string) *cobra.Command {
	return newLook(&cobra.Command{
		Use: name + " [URL] ELECTION", Short: short, Long: long, Example: "    elector " + name + " etcd://etcd1:2379 /jobs/reindex",
		Args: electionArgs,
	}, func(ctx context.Context, in *inspect.Inspector, path, _ string) (any, [][]string, error) {
		v, err := ask(in, ctx, path)
		if err != nil {
			return nil, nil, near(ctx, in, path, err)
		}
		return v, rows(v), leaderless(v)
	})
}

func newList() *cobra.Command {
	return newLook(&cobra.Command{
		Use:     "ls [URL] [PATH]",
		Short:   "List the elections at a path and below",
		Long:    listHelp,
		Example: "    elector ls etcd://etcd1:2379 /jobs",
		Args:    cobra.MaximumNArgs(2),
	}, func(ctx context.Context, in *inspect.Inspector, path, _ string) (any, [][]string, error) {
		l, err := in.List(ctx, path, inspect.ListOptions{})
		if err != nil {
			return nil, nil, err
		}
		return l, listRows(l), incomplete(l)
	})
}

// newLook completes a command that does one look.
func newLook(cmd *cobra.Command, do look) *cobra.Command {
	var l looker
	l.flags(cmd, 10*time.Second)
	return onService(cmd, func(cmd *cobra.Command, url, path, id string) error {
		return l.run(cmd.Context(), cmd.OutOrStdout(), url, path, id, do)
	})
}

// onService completes a command whose arguments name a service, a path and sometimes a candidate.
func onService(cmd *cobra.Command, run func(cmd *cobra.Command, url, path, id string) error) *cobra.Command {
	check := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError{err}
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		args, id := candidate(cmd, args)
		url, path, err := target(args)
		if err != nil {
			return err
		}
		return run(cmd, url, path, id)
	}
	cmd.ValidArgsFunction = completeElection
	return cmd
}

// flags adds the looker's flags.
func (l *looker) flags(cmd *cobra.Command, timeout time.Duration) {
	cmd.Flags().DurationVar(&l.timeout, "timeout", timeout, "how long to wait for the service")
	cmd.Flags().BoolVar(&l.json, "json", false, "print JSON")
}

// bound returns a ctx that ends with the timeout.
func (l looker) bound(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if l.timeout <= 0 {
		return nil, nil, usageError{fmt.Errorf("--timeout %v: must be above 0", l.timeout)}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, l.timeout, fmt.Errorf("no answer from the service within %v", l.timeout))
	return ctx, cancel, nil
}

// print prints a result, as JSON or as rows, and returns err.
func (l looker) print(w io.Writer, result any, rows [][]string, err error) error {
	if !l.json {
		return cmp.Or(printRows(w, rows), err)
	}
	e := newEncoder(w)
	e.SetIndent("", "  ")
	return cmp.Or(e.Encode(result), err)
}

// electionArgs accepts an election's path, with the service's URL before it or in the environment.
func electionArgs(_ *cobra.Command, args []string) error {
	if len(args) == 0 || len(args) > 2 || len(args) == 1 && !strings.HasPrefix(args[0], "/") {
		return fmt.Errorf("give the service's URL and the election's path, which begins with /, such as: etcd://127.0.0.1 /jobs/reindex; the URL may be in %s", urlVariable)
	}
	return nil
}

// target returns the service and the path that arguments name. Without a path it returns "/".
func target(args []string) (url, path string, err error) {
	url, path = os.Getenv(urlVariable), "/"
	for _, arg := range args {
		if strings.HasPrefix(arg, "/") {
			path = arg
		} else {
			url = arg
		}
	}
	switch {
	case url == "":
		return "", "", usageError{fmt.Errorf("which service? Give its URL before the path, or in %s", urlVariable)}
	case len(args) == 2 && (args[0] != url || args[1] != path):
		return "", "", usageError{errors.New("give the service's URL first, and then a path that begins with /")}
	case len(args) == 1 && path == "/" && !strings.Contains(url, "://"): // it may be a secret
		return "", "", usageError{errors.New("the argument is neither a URL, such as etcd://127.0.0.1, nor a path: a path begins with /")}
	}
	return url, path, nil
}

func (l looker) run(ctx context.Context, w io.Writer, url, path, id string, do look) (err error) {
	ctx, cancel, err := l.bound(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	in, done, err := open(ctx, url)
	if err != nil {
		return err
	}
	defer done()
	result, rows, err := do(ctx, in, path, id)
	if errors.Is(err, elector.ErrConfig) {
		err = usageError{err}
	}
	if result == nil {
		return err
	}
	return l.print(w, result, rows, err)
}

// open opens an inspector on a service. The caller calls done in the end.
func open(ctx context.Context, url string) (in *inspect.Inspector, done func(), err error) {
	b, err := dial.Open(ctx, url)
	if err != nil {
		return nil, nil, usageError{err}
	}
	if in, err = inspect.New(b, inspect.Options{}); err != nil {
		_ = b.Close()
		return nil, nil, err
	}
	return in, func() {
		_ = in.Close(ctx) // a session without entries, which ends by itself otherwise
		_ = b.Close()
	}, nil
}

// leaderless returns the error for an election that nobody leads.
func leaderless(v inspect.View) error {
	if v.Leader != nil {
		return nil
	}
	why := ""
	if v.Unknown {
		why = fmt.Sprintf(", as far as is known: the strategy %s is not known here", shown(v.Strategy))
	}
	return codedError{fmt.Errorf("nobody leads %s%s", v.Election, why), Leaderless}
}

// incomplete returns the error for an incomplete list.
func incomplete(l inspect.Listing) error {
	for _, m := range l.Missed {
		return fmt.Errorf("not all of %s was looked at: %s: %s (%d such places)", l.Under, shown(m.Key), m.Why, len(l.Missed))
	}
	for _, v := range l.Elections {
		if v.Trouble != nil {
			return fmt.Errorf("%s could not be looked at: %s", v.Election, v.Trouble.Why)
		}
	}
	return nil
}

// near names the elections around a path at which there is none.
func near(ctx context.Context, in *inspect.Inspector, election string, err error) error {
	if !errors.Is(err, elector.ErrNoElection) {
		return err
	}
	const most = 5
	for at := election; at != "/"; {
		at = path.Dir(at)
		l, unlisted := in.List(ctx, at, inspect.ListOptions{Most: 1000})
		if unlisted != nil {
			break // use what was found before
		}
		var there []string
		for _, v := range l.Elections[:min(most, len(l.Elections))] {
			there = append(there, v.Election)
		}
		if len(there) > 0 {
			err = fmt.Errorf("%w. Did you mean %s?", err, strings.Join(there, ", "))
			break
		}
	}
	return codedError{err, NoElection}
}

// completeElection lists the elections that begin with what was typed.
func completeElection(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	const noFiles = cobra.ShellCompDirectiveNoFileComp
	url, _, err := target(args)
	if err != nil || len(args) > 1 || typed != "" && !strings.HasPrefix(typed, "/") {
		return nil, noFiles
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
	defer cancel()
	in, done, err := open(ctx, url)
	if err != nil {
		return nil, noFiles
	}
	defer done()
	l, err := in.List(ctx, path.Dir("/"+strings.TrimPrefix(typed, "/")), inspect.ListOptions{Most: 1000})
	var names []string
	for _, v := range l.Elections {
		if err == nil && strings.HasPrefix(v.Election, typed) {
			names = append(names, v.Election)
		}
	}
	return names, noFiles
}

func statusRows(v inspect.View) [][]string {
	rows := [][]string{{"election", shown(v.Election)}, {"strategy", shown(v.Strategy)}}
	if v.Leader == nil {
		rows = append(rows, []string{"leader", "-"})
	} else {
		l := v.Leader
		rows = append(rows, []string{"leader", shown(l.ID)}, []string{"value", shown(string(l.Value))},
			[]string{"token", strconv.FormatUint(l.Token, 10)}, []string{"session", shown(l.Session)})
		if !l.Since.IsZero() {
			rows = append(rows, []string{"since", l.Since.Format(time.RFC3339)})
		}
		if l.Asked != nil {
			rows = append(rows, []string{"asked to go by", shown(l.Asked.By) + ": " + shown(l.Asked.Why)})
		}
	}
	if d := v.Designated; d != nil {
		rows = append(rows, []string{"designated", shown(d.ID)})
	}
	return rows
}

func candidateRows(v inspect.View) [][]string {
	rows := [][]string{{"PLACE", "ID", "LEADS", "RANK", "SINCE", "SESSION", "VALUE"}}
	for n, c := range v.Candidates {
		leads, rank, since := "", "", ""
		if c.Leads {
			leads = "leads"
		}
		if c.Rank != nil {
			rank = strings.Trim(strings.ReplaceAll(fmt.Sprint(c.Rank), " ", ","), "[]")
		}
		if !c.Since.IsZero() {
			since = c.Since.Format(time.RFC3339)
		}
		rows = append(rows, []string{strconv.Itoa(n + 1), shown(c.ID), cmp.Or(leads, "-"), cmp.Or(rank, "-"), cmp.Or(since, "-"),
			shown(c.Session), shown(string(c.Value))})
	}
	if v.Hidden {
		rows = append(rows, []string{"…", "those who wait leave no trace with " + shown(v.Strategy)})
	}
	if d := v.Designated; d != nil {
		rows = append(rows, []string{"…", shown(d.ID) + " is designated" + absent(v, d.ID)})
	}
	return rows
}

// absent returns a note if a candidate does not stand.
func absent(v inspect.View, id string) string {
	if slices.ContainsFunc(v.Candidates, func(c inspect.Candidate) bool { return c.ID == id }) {
		return ""
	}
	return ", and does not stand"
}

func listRows(l inspect.Listing) [][]string {
	rows := [][]string{{"ELECTION", "STRATEGY", "STAND", "LEADER"}}
	for _, v := range l.Elections {
		leader := "-"
		if v.Leader != nil {
			leader = shown(v.Leader.ID)
		}
		rows = append(rows, []string{shown(v.Election), shown(v.Strategy), strconv.Itoa(v.Count), leader})
	}
	return rows
}

// shown prepares another's text for a terminal: it quotes it if anything in it could be mistaken for
// something else.
func shown(s string) string {
	if s == "" {
		return "-"
	}
	if s == "-" || strings.ContainsAny(s, "\" \\") || strconv.Quote(s) != `"`+s+`"` {
		return strconv.Quote(s)
	}
	return s
}

// printable prepares an error's text, in part perhaps a service's or proxy's, for a terminal. It keeps lines.
func printable(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r == '\n' || strconv.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}

// onOneLine is printable without line breaks.
func onOneLine(text string) string { return strings.ReplaceAll(printable(text), "\n", "; ") }

// printRows prints cells in columns, also of wide runes.
func printRows(w io.Writer, rows [][]string) error {
	var widths []int
	for _, row := range rows {
		for n, cell := range row[:len(row)-1] { // nothing follows the last
			if n == len(widths) {
				widths = append(widths, 0)
			}
			widths[n] = max(widths[n], uniseg.StringWidth(cell))
		}
	}
	var text strings.Builder
	for _, row := range rows {
		for n, cell := range row {
			text.WriteString(cell)
			if n < len(row)-1 {
				text.WriteString(strings.Repeat(" ", widths[n]-uniseg.StringWidth(cell)+2))
			}
		}
		text.WriteByte('\n')
	}
	_, err := io.WriteString(w, text.String())
	return err
}
