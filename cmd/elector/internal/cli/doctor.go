package cli

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/elector-go/elector/cmd/elector/internal/doctor"
)

func newDoctor() *cobra.Command {
	var l looker
	cmd := &cobra.Command{
		Use:     "doctor [URL] [PATH]",
		Short:   "Say whether a service is fit for elections",
		Long:    doctorHelp,
		Example: doctorExamples,
		Args:    cobra.MaximumNArgs(2),
	}
	l.flags(cmd, 30*time.Second)
	return onService(cmd, func(cmd *cobra.Command, url, path, _ string) error {
		return l.examine(cmd.Context(), cmd.OutOrStdout(), url, path)
	})
}

// examine prints the doctor's findings.
func (l looker) examine(ctx context.Context, w io.Writer, url, path string) error {
	bounded, cancel, err := l.bound(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	r, err := doctor.Check(bounded, url, path)
	if err != nil {
		return usageError{err}
	}
	rows := doctorRows(r)
	switch {
	case ctx.Err() != nil: // print the findings without a verdict
		rows, err = rows[:len(rows)-1], context.Cause(ctx)
	case r.Level == doctor.Fail:
		err = errors.New(verdicts[r.Level])
	}
	return l.print(w, r, rows, err)
}

func doctorRows(r doctor.Report) [][]string {
	var rows [][]string
	add := func(where string, all doctor.Findings) {
		for _, f := range all {
			rows = append(rows, []string{string(f.Level), where, f.Check, onOneLine(f.Says)})
			if f.Do != "" {
				rows = append(rows, []string{"", "", "", "→ " + f.Do})
			}
		}
	}
	for _, s := range r.Servers {
		add(s.Address, s.Findings)
	}
	add("service", r.Service)
	return append(rows, []string{string(r.Level), "all", "", verdicts[r.Level]})
}

var verdicts = map[doctor.Level]string{
	doctor.OK:   "fit for elections",
	doctor.Warn: "fit for elections, with warnings",
	doctor.Fail: "not fit for elections, or not with these credentials",
}
