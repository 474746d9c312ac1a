package etcd

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/elector-go/elector/internal/asynclog"
)

// The limits and defaults of Config.
const (
	// DefaultSessionTimeout is the timeout that is requested by default.
	DefaultSessionTimeout = 10 * time.Second
	// MinSessionTimeout and MaxSessionTimeout bound the timeout that may be requested. Servers grant at
	// least 3/2 of their election timeout, 2 s by default.
	MinSessionTimeout = 2 * time.Second
	MaxSessionTimeout = 24 * time.Hour
	// DefaultMaxOps is the server's default of --max-txn-ops.
	DefaultMaxOps = 128
	// DefaultMaxRequest is the server's default of --max-request-bytes.
	DefaultMaxRequest = 3 << 19
)

// Config configures a Backend. Its zero value is ready.
type Config struct {
	// SessionTimeout is requested when OpenOptions.TTL is zero; DefaultSessionTimeout by default.
	// Leases count in whole seconds, so it is rounded up. The server may grant another timeout.
	SessionTimeout time.Duration

	// MaxOps and MaxRequest are the most that the servers accept in one transaction: conditions or
	// operations, and bytes. Set them if the servers run with other values of --max-txn-ops and
	// --max-request-bytes. The defaults are DefaultMaxOps and DefaultMaxRequest. A client whose
	// MaxCallSendMsgSize is below MaxRequest refuses requests itself.
	MaxOps, MaxRequest int

	// Logger gets messages about background work; by default nothing is logged.
	Logger *slog.Logger
}

// Validate reports all faults at once.
func (c Config) Validate() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if t := c.SessionTimeout; t != 0 && (t < MinSessionTimeout || t > MaxSessionTimeout) {
		fault("SessionTimeout: %v is not between %v and %v", t, MinSessionTimeout, MaxSessionTimeout)
	}
	if c.MaxOps < 0 {
		fault("MaxOps: %d is negative", c.MaxOps)
	}
	if c.MaxRequest < 0 {
		fault("MaxRequest: %d is negative", c.MaxRequest)
	}
	if len(errs) == 0 {
		return nil
	}
	return fmt.Errorf("etcd: config: %w", errors.Join(errs...))
}

func (c Config) withDefaults() Config {
	c.SessionTimeout = cmp.Or(c.SessionTimeout, DefaultSessionTimeout)
	c.MaxOps = cmp.Or(c.MaxOps, DefaultMaxOps)
	c.MaxRequest = cmp.Or(c.MaxRequest, DefaultMaxRequest)
	c.Logger = asynclog.New(c.Logger)
	return c
}
