package cli

import (
	"context"
	"fmt"
	"net"

	"github.com/spf13/cobra"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/cmd/elector/internal/dashboard"
	"github.com/elector-go/elector/internal/asynclog"
)

func newDashboard() *cobra.Command {
	var c dashboard.Config
	cmd := &cobra.Command{
		Use:     "dashboard [URL] [PATH]",
		Short:   "Serve a live page: who leads, who stands, what changes",
		Long:    dashboardHelp,
		Example: "    elector dashboard etcd://etcd1:2379 /jobs",
		Args:    cobra.MaximumNArgs(2),
	}
	f := cmd.Flags()
	f.StringVar(&c.Listen, "listen", "127.0.0.1:4041", "`address` to serve the page at; anybody who can reach it sees the page")
	f.StringSliceVar(&c.Hosts, "host", nil, "`names` by which the page may be asked for, beside localhost and IP addresses")
	f.BoolVar(&c.Changes, "allow-changes", false, "let anybody who opens the logged address ask leaders to go, transfer and designate")
	signing(cmd, &c.By)
	return onService(cmd, func(cmd *cobra.Command, url, path, _ string) error {
		if err := backend.CheckKey(path); path != "/" && err != nil {
			return usageError{err}
		}
		if _, _, err := net.SplitHostPort(c.Listen); err != nil {
			return usageError{fmt.Errorf("--listen %q: give an address and a port, such as 127.0.0.1:4041", c.Listen)}
		}
		in, done, err := open(cmd.Context(), url)
		if err != nil {
			return err
		}
		defer done()
		c.Service, c.Path = url, path
		if c.Log, err = logger(cmd.ErrOrStderr(), "text"); err != nil {
			return err
		}
		defer asynclog.Flush(context.Background(), c.Log, asynclog.AtExit)
		surviveReaders()
		return dashboard.Serve(cmd.Context(), in, c)
	})
}
