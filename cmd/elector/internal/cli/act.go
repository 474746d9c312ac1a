package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/inspect"
)

// takesCandidate ends the Use of a command whose last argument is a candidate's ID.
const takesCandidate = " CANDIDATE"

// candidate splits the candidate's ID off the arguments of a command that takes one.
func candidate(cmd *cobra.Command, args []string) (rest []string, id string) {
	if last := len(args) - 1; strings.HasSuffix(cmd.Use, takesCandidate) && last >= 0 {
		return args[:last], args[last]
	}
	return args, ""
}

// newAct completes a command that changes an election. With withID it takes a candidate's ID.
func newAct(name, short, long, example string, withID bool, do look) *cobra.Command {
	cmd := &cobra.Command{
		Use: name + " [URL] ELECTION", Short: short, Long: long, Example: "    elector " + name + " etcd://etcd1:2379 /jobs/reindex" + example,
		Args: electionArgs,
	}
	if withID {
		cmd.Use += takesCandidate
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			rest, id := candidate(cmd, args)
			if err := electionArgs(cmd, rest); err != nil || id == "" {
				return fmt.Errorf("give the service's URL, the election's path and the candidate's ID, such as: etcd://127.0.0.1 /jobs/reindex host-2; the URL may be in %s", urlVariable)
			}
			return nil
		}
	}
	return newLook(cmd, func(ctx context.Context, in *inspect.Inspector, path, id string) (any, [][]string, error) {
		result, rows, err := do(ctx, in, path, id)
		switch {
		case errors.Is(err, elector.ErrNoLeader):
			err = codedError{err, Leaderless}
		case errors.Is(err, elector.ErrNoCandidate):
			err = fmt.Errorf("%w; 'elector candidates' lists those who stand", err)
		case errors.Is(err, elector.ErrNoDesignation):
			err = fmt.Errorf("%w: ranked alone does; with fair, 'elector transfer' moves leadership once", err)
		case errors.Is(err, elector.ErrNoTransfer):
			err = fmt.Errorf("%w: fair and ranked can; with 'elector resign' the next candidate leads", err)
		case errors.Is(err, elector.ErrInUse):
			err = fmt.Errorf("%w; stop their processes first", err)
		}
		return result, rows, near(ctx, in, path, err)
	})
}

// asking adds the flags for who asks, and why, for people to read.
func asking(cmd *cobra.Command, by, why *string) {
	signing(cmd, by)
	cmd.Flags().StringVar(why, "why", "", "the reason, for the leader's log")
}

// signing adds the flag for who asks, for people to read.
func signing(cmd *cobra.Command, by *string) {
	name := os.Getenv("USER")
	if me, err := user.Current(); err == nil && name == "" { // as in a container, or a cron job
		name = me.Username
	}
	if host, err := os.Hostname(); err == nil && name != "" {
		name += "@" + host
	}
	cmd.Flags().StringVar(by, "by", name, "who asks, for the leader's log")
}

func newResign() *cobra.Command {
	var r elector.Request
	cmd := newAct("resign", "Ask the leader to go", resignHelp, " --why 'disk is slow'", false,
		func(ctx context.Context, in *inspect.Inspector, path, _ string) (any, [][]string, error) {
			return asked(in.Ask(ctx, path, r))
		})
	asking(cmd, &r.By, &r.Why)
	return cmd
}

func newTransfer() *cobra.Command {
	var r elector.Request
	cmd := newAct("transfer", "Have a candidate lead next", transferHelp, " host-2", true,
		func(ctx context.Context, in *inspect.Inspector, path, id string) (any, [][]string, error) {
			return asked(in.Transfer(ctx, path, id, r))
		})
	asking(cmd, &r.By, &r.Why)
	return cmd
}

// asked shows who was asked to go.
func asked(l inspect.Leader, err error) (any, [][]string, error) {
	if err != nil {
		return nil, nil, err
	}
	rows := [][]string{{"asked to go", shown(l.ID)}}
	if l.Asked != nil {
		rows = append(rows, []string{"asked before", shown(l.Asked.By) + ": " + shown(l.Asked.Why)})
	}
	return l, rows, nil
}

func newDesignate() *cobra.Command {
	var d inspect.Designation
	cmd := newAct("designate", "Have a candidate outrank all others", designateHelp, " host-2", true,
		func(ctx context.Context, in *inspect.Inspector, path, id string) (any, [][]string, error) {
			d.ID = id
			if err := in.Designate(ctx, path, d); err != nil {
				return nil, nil, err
			}
			rows := [][]string{{"designated", shown(id)}}
			if v, err := in.Candidates(ctx, path); err == nil && absent(v, id) != "" { // perhaps a typo
				rows = append(rows, []string{"candidate", "nobody of this ID stands now"})
			}
			return d, rows, nil
		})
	asking(cmd, &d.By, &d.Why)
	return cmd
}

func newUndesignate() *cobra.Command {
	return newAct("undesignate", "Take a designation back", undesignateHelp, "", false,
		func(ctx context.Context, in *inspect.Inspector, path, _ string) (any, [][]string, error) {
			if err := in.Undesignate(ctx, path); err != nil {
				return nil, nil, err
			}
			return inspect.Designation{}, [][]string{{"designated", "-"}}, nil
		})
}

func newRemove() *cobra.Command {
	var o inspect.RemoveOptions
	cmd := newAct("rm", "Remove what an election has left", removeHelp, "", false,
		func(ctx context.Context, in *inspect.Inspector, path, _ string) (any, [][]string, error) {
			gone, err := in.Remove(ctx, path, o)
			if err != nil && len(gone.Entries) == 0 {
				return nil, nil, err
			}
			rows := [][]string{{"removed", shown(gone.Election)}}
			for _, key := range gone.Entries {
				rows = append(rows, []string{"entry", shown(key)})
			}
			if gone.Kept != "" {
				rows = append(rows, []string{"kept", "the record: " + shown(gone.Kept)})
			}
			return gone, rows, err
		})
	cmd.Flags().BoolVar(&o.Evict, "evict", false, "also the entries of those who stand; processes that live stand again at once")
	return cmd
}

func newWatch() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "watch [URL] ELECTION",
		Short:   "Print a line when another leads",
		Long:    watchHelp,
		Example: "    elector watch etcd://etcd1:2379 /jobs/reindex",
		Args:    electionArgs,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one object per line")
	return onService(cmd, func(cmd *cobra.Command, url, path, _ string) error {
		return follow(cmd.Context(), cmd.OutOrStdout(), url, path, asJSON)
	})
}

// follow prints a line per change until ctx ends.
func follow(ctx context.Context, w io.Writer, url, path string, asJSON bool) error {
	in, done, err := open(ctx, url)
	if err != nil {
		return err
	}
	defer done()
	last := ""
	for v, err := range in.Watch(ctx, path, inspect.WatchOptions{}) {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, elector.ErrConfig):
			return usageError{err}
		case err != nil:
			return err
		case asJSON:
			if err := newEncoder(w).Encode(v); err != nil {
				return err
			}
			continue
		}
		if line := change(v); line != last {
			at := v.At
			if v.Trouble != nil {
				at = v.Trouble.Since
			}
			if _, err := fmt.Fprintf(w, "%s  %s\n", at.Format(time.RFC3339), line); err != nil {
				return err
			}
			last = line
		}
	}
	return nil
}

// change describes an election that a watch has seen.
func change(v inspect.View) string {
	if v.Trouble != nil {
		const outOfTouch = "out of touch"
		trouble := onOneLine(v.Trouble.Why)
		if !strings.HasPrefix(trouble, outOfTouch) {
			trouble = outOfTouch + ": " + trouble
		}
		if v.Trouble = nil; v.Strategy != "" {
			trouble += "; known last: " + change(v)
		}
		return trouble
	}
	line := "nobody leads"
	switch {
	case v.Strategy == "":
		return "there is no election"
	case v.Leader != nil:
		line = fmt.Sprintf("%s leads, token %d", shown(v.Leader.ID), v.Leader.Token)
		if a := v.Leader.Asked; a != nil {
			line += ", asked to go " + a.String()
		}
	}
	if v.Designated != nil {
		line += fmt.Sprintf("; %s is designated", shown(v.Designated.ID))
	}
	return line
}
