// Package run makes any program a leader: it campaigns, and runs a command while it leads.
package run

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/elector-go/elector/cmd/elector/internal/watchdog"
	"github.com/elector-go/elector/lastwill"
	"github.com/elector-go/elector/strategy"
	"github.com/elector-go/elector/strategy/catalog"
	"github.com/elector-go/elector/strategy/ranked"
)

// Config has the command to run, and when to run it.
type Config struct {
	// URL names the service: see package dial.
	URL string
	// Election, ID, Value and TTL are as in elector.Config. An empty ID is the host's name.
	Election string
	ID       string
	Value    string
	TTL      time.Duration
	// Strategy is a name of package catalog. Rank is for ranked; nil is none.
	Strategy string
	Rank     []int64
	// Preempt makes this candidate ask a leader of lower rank to go, once it has been the better one for
	// HoldOff. It is for ranked. Without it, the candidate waits until the leader goes.
	Preempt bool
	HoldOff time.Duration
	// Command is the program and its arguments.
	Command []string
	// Grace is the time from SIGTERM to the command's end before it is killed. If the term ends because
	// leadership is lost, it has less.
	Grace time.Duration
	// Stop stops the command as soon as the link to the service is down. Without it, the command runs until
	// the trust window nears its end.
	Stop bool
	// Restart starts a command that ends by itself again in the same term. Without it, its end ends Run.
	Restart bool
	// Once ends Run with the command, for any reason of its end.
	Once bool
	// HTTP is the address, such as :4040, of package health and the metrics; "" is none.
	HTTP string
	// Label is the key of a label that this process's Pod bears while it leads: see kubernetes.LabelLeader. ""
	// is none.
	Label string
	// Agent is the socket of an agent of this host that ends the session if this process dies; "" is a
	// companion of its own. The opener of the backend must use it.
	Agent string
	// Hold, if not nil, takes a hold of what ends the session if this process dies: it waits until the
	// command is gone.
	Hold func() (*lastwill.Hold, error)
	// Stdin, Stdout and Stderr are the command's. A nil Stdin is the null device.
	Stdin, Stdout, Stderr *os.File
	// Log receives transitions.
	Log *slog.Logger
}

// An Exit is the error of Run when the command's end has ended it.
type Exit struct {
	// Code is not 0.
	Code int
}

func (e Exit) Error() string { return fmt.Sprintf("the command has exited with %d", e.Code) }

// Validate returns what is wrong with the settings, as far as can be told without the service, and fills in
// ID and the command's path if empty.
func (c *Config) Validate() error {
	var errs []error
	if !watchdog.Supported {
		errs = append(errs, watchdog.ErrUnsupported)
	}
	if c.ID == "" {
		host, err := os.Hostname()
		if err != nil {
			errs = append(errs, fmt.Errorf("--id: give one, as this machine does not tell its name: %w", err))
		}
		c.ID = host
	}
	if _, err := c.strategy(); err != nil {
		errs = append(errs, err)
	}
	if c.Grace < 0 {
		errs = append(errs, fmt.Errorf("--grace %v: must not be negative", c.Grace))
	}
	if _, _, err := net.SplitHostPort(c.HTTP); c.HTTP != "" && err != nil {
		errs = append(errs, fmt.Errorf("--http %q: give an address and a port, such as :4040", c.HTTP))
	}
	if c.Restart && c.Once {
		errs = append(errs, errors.New("--restart and --once: give one of them"))
	}
	if len(c.Command) == 0 {
		return errors.Join(append(errs, errors.New("the command is missing"))...)
	}
	path, err := exec.LookPath(c.Command[0])
	if err != nil {
		errs = append(errs, fmt.Errorf("the command cannot be run: %w", err))
	}
	c.Command = append([]string{path}, c.Command[1:]...)
	return errors.Join(errs...)
}

// strategy returns the named strategy, with the rank.
func (c *Config) strategy() (strategy.Strategy, error) {
	item, ok := catalog.Named(c.Strategy)
	if !ok {
		return nil, fmt.Errorf("--strategy %q: unknown: there are %s", c.Strategy, strings.Join(catalog.Names(), ", "))
	}
	ranks, takes := item.Strategy.(ranked.Strategy)
	ranks.Preempt, ranks.HoldOff = c.Preempt, c.HoldOff
	switch {
	case c.Rank == nil && !c.Preempt:
		return item.Strategy, nil
	case !takes && c.Rank != nil:
		return nil, fmt.Errorf("--rank: the strategy %s has no ranks: take --strategy ranked", c.Strategy)
	case !takes:
		return nil, fmt.Errorf("--preempt-after: the strategy %s has no ranks: take --strategy ranked", c.Strategy)
	case c.HoldOff < 0:
		return nil, fmt.Errorf("--preempt-after %v: must not be negative", c.HoldOff)
	case c.Rank != nil:
		ranks.Rank = ranked.NewRank(slices.Clone(c.Rank)...)
	}
	return ranks, nil
}
