package elector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/election"
	"github.com/elector-go/elector/strategy"
)

// Limits of what a candidate may store, the same on every backend.
const (
	// MaxID is the longest candidate ID in bytes.
	MaxID = 256
	// MaxElection is the longest election path in bytes. It leaves room for the entries below it.
	MaxElection = backend.MaxKey - 128
	// MaxElectionSegments is the maximum number of segments of an election's path, for the same reason.
	MaxElectionSegments = backend.MaxSegments - 4
	// MaxValue is the largest candidate value in bytes.
	MaxValue = 256 << 10
)

// A SuspendPolicy says what a leader does when it is out of touch with the service.
type SuspendPolicy int

const (
	// HoldWhileTrusted keeps the term until the trust window ends. A reconnect before
	// that has no effect on the term. This is the default.
	HoldWhileTrusted SuspendPolicy = iota
	// StepDownOnSuspend ends the term with ErrSuspended at the first disconnect.
	StepDownOnSuspend
)

// Config describes the candidate and its election.
type Config struct {
	// Backend is the coordination service. Required. Electors of a process that are
	// given the same backend.Share share one session.
	Backend backend.Backend

	// Strategy decides who waits for whom and who wins. Required. All candidates
	// of an election must use the same one (ErrStrategyMismatch).
	Strategy strategy.Strategy

	// Election is the election's absolute path, such as "/jobs/reindex". Required.
	// See backend.CheckKey. With a CustomLayout strategy it may be "/".
	Election string

	// ID names the candidate for people: a host name, a pod's name. Required; at most MaxID bytes of
	// printable UTF-8. Candidates of different processes may have the same ID (a restarted one does, until
	// its old session times out): they remain separate candidates, with separate entries. Within a process,
	// two open electors of one backend and election may not have the same ID.
	ID string

	// Value is what the candidate publishes, such as its address; at most
	// MaxValue bytes. A leader changes it with Term.Proclaim.
	Value []byte

	// TTL is the session timeout to ask for; zero means the backend's default.
	TTL time.Duration

	// OnSuspend says what a leader does when it is out of touch with the service.
	OnSuspend SuspendPolicy

	// RetryMin and RetryMax bound the exponential backoff between attempts of a campaign; zero means 50 ms
	// and 5 s. Each wait is shorter than that by a random part, at most half.
	RetryMin, RetryMax time.Duration

	// SurveyEvery is how often a waiting or leading candidate checks whether somebody else's candidates
	// have come to the election's path (ErrOccupied): a second at least; zero means a minute, and a
	// negative value means never. Each check is a request or two; on ZooKeeper it is one more for each
	// other key directly under the path, up to a hundred. A candidate that enters checks in any case. A
	// leader also checks a second after its term has begun, unless SurveyEvery is negative.
	SurveyEvery time.Duration

	// Fit, if its Check is set, asks the application whether it can lead. An unfit candidate stands
	// aside, and an unfit leader asks itself to go.
	Fit Fit

	// Standby, if not nil, prepares for a term while the candidate waits, such as by filling a cache.
	// Run and Lead call it for each campaign, on a separate goroutine, and call lead after it has
	// returned nil. elected is closed when the candidate is elected: until then Standby may keep its
	// data up to date. If the candidate is elected earlier, it waits for Standby, and keeps the seat
	// meanwhile. ctx ends with the campaign or the term, and when the leader is asked to go. Standby must
	// return then, as Run waits for it. An error before that ends Run, which returns it: the candidate
	// withdraws, or releases the seat. A panic is not recovered. Campaign without Run does not call Standby.
	Standby func(ctx context.Context, elected <-chan struct{}) error

	// Logger receives the transitions; nil means that nothing is logged. Info: the begin and end of
	// terms, requests to go, and sessions that are suspended and live again. Warn: retries (ten times
	// and then once a minute), an unfit application, and a lead function that Run waits for. Error: what
	// needs a person. docs/observability.md explains every message. Nothing waits for the handler, which runs on a
	// separate goroutine. While it does not return, at most 4096 records wait; more are dropped, and counted. At its
	// end, Close waits up to a tenth of a second for them. The handler's Enabled is called directly, and must not
	// block.
	Logger *slog.Logger

	// Hooks report every transition.
	Hooks Hooks

	_ struct{}
}

// Validate reports all violations in one error. Each names field, value and rule, and wraps ErrConfig.
func (c Config) Validate() error { return c.validate("elector: Config.") }

// validate implements Validate, with prefix before the name of each field.
func (c Config) validate(prefix string) error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf(prefix+format+": %w", append(args, ErrConfig)...))
	}
	if isNil(c.Backend) {
		bad("Backend is nil: give one, for example memory.New or zookeeper.New")
	} else {
		l := c.Backend.Limits()
		if c.TTL != 0 && c.TTL != l.MinTTL && l.MinTTL == l.MaxTTL {
			bad("TTL %v differs from %v, the only one that backend %v takes, as one that is shared (backend.Share): leave it zero", c.TTL, l.MinTTL, c.Backend)
		} else if c.TTL != 0 && (c.TTL < l.MinTTL || c.TTL > l.MaxTTL) {
			bad("TTL %v is out of range: backend %v takes %v to %v", c.TTL, c.Backend, l.MinTTL, l.MaxTTL)
		}
		if !reflect.ValueOf(c.Backend).Comparable() {
			bad("Backend %T is not comparable: give a pointer", c.Backend)
		}
	}
	if isNil(c.Strategy) {
		bad("Strategy is nil: give one, for example fair.Strategy{} or unfair.Strategy{}")
	} else if c.Strategy.Name() == "" {
		bad("Strategy %T has no name", c.Strategy)
	}
	_, foreign, err := c.identify()
	if err != nil {
		bad("%w", err)
	}
	if foreign && c.Election == "/" {
		// Its keys are at the server's top level.
	} else if err := backend.CheckKey(c.Election); err != nil {
		bad("Election: %w", err)
	} else if len(c.Election) > MaxElection {
		bad("Election of %d bytes is too long: at most %d", len(c.Election), MaxElection)
	} else if n := strings.Count(c.Election, "/"); n > MaxElectionSegments {
		bad("Election has %d segments: at most %d", n, MaxElectionSegments)
	}
	if r, ok := backend.CheckText(c.ID); c.ID == "" {
		bad(`ID "" is empty: name the candidate, for example by its host name`)
	} else if len(c.ID) > MaxID {
		bad("ID of %d bytes is too long: at most %d", len(c.ID), MaxID)
	} else if !utf8.ValidString(c.ID) {
		bad("ID %q is not valid UTF-8", c.ID)
	} else if !ok {
		bad("ID %q has the character %U, which not every service can store", c.ID, r)
	} else if strings.TrimSpace(c.ID) == "" {
		bad("ID %q is blank", c.ID)
	}
	if len(c.Value) > MaxValue {
		bad("Value of %d bytes is too large: at most %d", len(c.Value), MaxValue)
	}
	if c.OnSuspend != HoldWhileTrusted && c.OnSuspend != StepDownOnSuspend {
		bad("OnSuspend %d is neither HoldWhileTrusted nor StepDownOnSuspend", c.OnSuspend)
	}
	if c.RetryMin < 0 {
		bad("RetryMin %v is negative", c.RetryMin)
	}
	if lo, hi := c.retry(); hi < lo {
		bad("RetryMax %v is less than RetryMin %v", hi, lo)
	}
	if c.SurveyEvery > 0 && c.SurveyEvery < election.MinSurveyEvery {
		bad("SurveyEvery %v is too short: at least %v, or negative for never", c.SurveyEvery, election.MinSurveyEvery)
	}
	c.Fit.validate(bad)
	return errors.Join(errs...)
}

// identify returns the ID by which the election knows the candidate, and whether the
// strategy has a CustomLayout.
func (c Config) identify() (id string, foreign bool, err error) {
	if s, ok := c.Strategy.(strategy.CustomLayout); ok && !isNil(c.Strategy) {
		id, err = s.Identify(c.ID, c.Election)
		return id, true, err
	}
	return c.ID, false, nil
}

// retry returns the bounds of the backoff with defaults filled in.
func (c Config) retry() (lo, hi time.Duration) {
	lo, hi = c.RetryMin, c.RetryMax
	if lo <= 0 {
		lo = 50 * time.Millisecond
	}
	if hi == 0 {
		hi = max(5*time.Second, lo)
	}
	return lo, hi
}

// isNil also detects a nil pointer in an interface, which would otherwise panic at its first use.
func isNil(v any) bool {
	if v == nil {
		return true
	}
	r := reflect.ValueOf(v)
	return r.Kind() == reflect.Pointer && r.IsNil()
}
