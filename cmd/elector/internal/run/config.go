// Package run has any program lead: it campaigns, and runs a command while it leads.
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

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/cmd/elector/internal/watchdog"
	"github.com/elector-go/elector/lastwill"
	"github.com/elector-go/elector/strategy/catalog"
	"github.com/elector-go/elector/strategy/ranked"
)

// Config says which command runs, and when.
type Config struct {
	// URL names the service: see package dial.
	URL string
	// Election, ID, Value and TTL are those of elector.Config. An empty ID is the host's name.
	Election string
	ID       string
	Value    string
	TTL      time.Duration
	// Strategy is the name of one of package catalog. Rank is for ranked; nil is none.
	Strategy string
	Rank     []int64
	// Preempt has this candidate ask a leader of lesser rank to go, once it has been the better one for
	// HoldOff. It is for ranked. Else it waits until the leader goes.
	Preempt bool
	HoldOff time.Duration
	// Command is the program and its arguments.
	Command []string
	// Grace is how long the command may take from SIGTERM to its end, before it is killed: where the
	// term ends as leadership is lost it has less.
	Grace time.Duration
	// Stop has the command stop as soon as the session is out of touch with the service. Else it runs
	// on until the trust window nears its end.
	Stop bool
	// Restart has a command that ends by itself started again in the same term. Else its end ends Run.
	Restart bool
	// Once has Run end with the command, whatever has ended that.
	Once bool
	// HTTP is the address, such as :4040, at which package health and the metrics answer; "" is none.
	HTTP string
	// Agent is the socket of an agent of this host that ends the session should this process die; "" is
	// a companion of its own. Whoever opens the backend sees to it.
	Agent string
	// Hold, if not nil, takes a hold of what ends the session should this process die: it waits until
	// the command is gone.
	Hold func() (*lastwill.Hold, error)
	// Stdin, Stdout and Stderr are the command's. A nil Stdin is the null device.
	Stdin, Stdout, Stderr *os.File
	// Log is where transitions are told.
	Log *slog.Logger
}

// An Exit is the error of Run that the command's end has ended.
type Exit struct {
	// Code is not 0.
	Code int
}

func (e Exit) Error() string { return fmt.Sprintf("the command has exited with %d", e.Code) }

// Validate tells what is wrong with the settings that does not take the service to find out, and fills
// in what is left empty: ID, and the command's path.
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

// strategy is the one that is named, with the rank.
func (c *Config) strategy() (elector.Strategy, error) {
	item, ok := catalog.Named(c.Strategy)
	if !ok {
		return nil, fmt.Errorf("--strategy %q: unknown: there are %s", c.Strategy, strings.Join(catalog.Names(), ", "))
	}
	ranks := ranked.Strategy{Preempt: c.Preempt, HoldOff: c.HoldOff}
	switch {
	case c.Rank == nil && !c.Preempt:
		return item.Strategy, nil
	case !item.Ranked && c.Rank != nil:
		return nil, fmt.Errorf("--rank: the strategy %s has no ranks: take --strategy ranked", c.Strategy)
	case !item.Ranked:
		return nil, fmt.Errorf("--preempt-after: the strategy %s has no ranks: take --strategy ranked", c.Strategy)
	case c.HoldOff < 0:
		return nil, fmt.Errorf("--preempt-after %v: must not be negative", c.HoldOff)
	case c.Rank != nil:
		ranks.Rank = ranked.NewRank(slices.Clone(c.Rank)...)
	}
	return ranks, nil
}
