package cli

import (
	"errors"
	"fmt"
	"os"
	"regexp"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

const manHelp = `Man writes a manual page for each command into a directory, which must exist:
elector.1, elector-compare.1 and so on.

EXIT STATUS
    0  written
    1  a page could not be written
    2  wrong usage, such as a directory that is missing`

const manExamples = `    elector man /usr/local/share/man/man1
    elector man . && man ./elector-compare.1`

func newMan() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write manual pages",
		Long:    manHelp,
		Example: manExamples,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{errors.New("name one directory to write the pages into, such as /usr/local/share/man/man1")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if info, err := os.Stat(args[0]); err != nil {
				return usageError{fmt.Errorf("make the directory first: %w", err)}
			} else if !info.IsDir() {
				return usageError{fmt.Errorf("%s is not a directory", args[0])}
			}
			root := cmd.Root()
			headings(root)
			root.DisableAutoGenTag = true // no date, so that the same source makes the same page
			return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "elector", Manual: "elector"}, args[0])
		},
	}
}

// heading is a line that begins a section of the long help.
var heading = regexp.MustCompile(`(?m)^[A-Z][A-Z ]+$`)

// headings marks them for the writer of manual pages.
func headings(cmd *cobra.Command) {
	cmd.Long = heading.ReplaceAllString(cmd.Long, "# $0\n")
	for _, c := range cmd.Commands() {
		headings(c)
	}
}
