package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/dial"
	"github.com/elector-go/elector/cmd/elector/internal/agent"
	"github.com/elector-go/elector/internal/asynclog"
	"github.com/elector-go/elector/lastwill"
)

func newAgent() *cobra.Command {
	var socket, mode, format string
	var urls []string
	cmd := &cobra.Command{
		Use:     "agent --socket PATH --backend URL [flags]",
		Short:   "End the sessions of this host's processes when they die",
		Long:    agentHelp,
		Example: agentExamples,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			rights, err := strconv.ParseUint(mode, 8, 9)
			if err != nil {
				return usageError{fmt.Errorf("--mode %q: give permissions in octal, such as 0600 or 0660", mode)}
			}
			if socket == "" {
				return usageError{errors.New("--socket: where are processes to connect? Give a path, such as /run/elector/agent.sock")}
			}
			if url := os.Getenv(urlVariable); len(urls) == 0 && url != "" {
				urls = []string{url}
			}
			if len(urls) == 0 {
				return usageError{fmt.Errorf("--backend: which service? Give its URL, here or in %s", urlVariable)}
			}
			log, err := logger(cmd.ErrOrStderr(), format)
			if err != nil {
				return usageError{err}
			}
			defer asynclog.Flush(context.Background(), log, asynclog.AtExit)
			surviveReaders()
			return serve(cmd.Context(), socket, fs.FileMode(rights), urls, log)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&socket, "socket", "", "`path` at which processes connect; the socket is made, and removed at the end")
	f.StringArrayVar(&urls, "backend", nil, "`URL` of a service whose sessions it ends; may be given several times, for services of several kinds")
	f.StringVar(&mode, "mode", "0600", "`permissions` of the socket: users that may write to it, and root, may connect")
	f.StringVar(&format, "log-format", "text", "`form` of the log lines on standard error: text or json")
	complete(cmd)
	return cmd
}

// serve runs an agent until ctx ends. It returns ctx's cause.
func serve(ctx context.Context, socket string, mode fs.FileMode, urls []string, log *slog.Logger) (err error) {
	o := lastwill.ServeOptions{Logger: log}
	names := make(map[string]bool)
	for _, url := range urls {
		b, err := dial.Open(ctx, url, dial.WithLogger(log))
		if err != nil {
			return usageError{err}
		}
		defer func() {
			if err := b.Close(); err != nil {
				log.Warn("the service's client", "err", err)
			}
		}()
		if names[b.String()] {
			return usageError{fmt.Errorf("--backend: two services are %s, which a process does not tell apart: run an agent for each", b)}
		}
		names[b.String()] = true
		o.Backends = append(o.Backends, backend.Backend(b))
	}
	l, err := agent.Listen(ctx, socket, mode)
	if err != nil {
		return fmt.Errorf("--socket: %w", err)
	}
	log.Info("the agent serves", "socket", socket, "pid", os.Getpid())
	return cmp.Or(lastwill.Serve(ctx, l, o), context.Cause(ctx))
}
