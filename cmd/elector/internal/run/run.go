package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/kubernetes"
	"github.com/elector-go/elector/cmd/elector/internal/watchdog"
	"github.com/elector-go/elector/internal/program"
	electorprom "github.com/elector-go/elector/metrics/prometheus"
)

const (
	// closing is how long the end waits for the service to confirm that the seat is free.
	closing = 5 * time.Second
	// steady is how long a command must run before its end does not count as a failed start. restartMin and
	// restartMax bound the pauses before it is started again.
	steady     = 10 * time.Second
	restartMin = time.Second
	restartMax = 30 * time.Second
)

// Run campaigns, and runs the command while it leads, until the command ends by itself (but see
// Config.Restart and Once), or until ctx ends: then it ends the command, and resigns. A config that passes
// Validate may still be wrong: then Run returns elector.ErrConfig.
//
// The error is an Exit if the command has ended Run, or was ended because of ctx, with a code other than 0;
// ctx's cause if no command ran when ctx ended; else the error of the campaign.
func Run(ctx context.Context, b backend.Backend, c Config) error {
	strategy, err := c.strategy()
	if err != nil {
		return err
	}
	metrics := electorprom.New(electorprom.Options{Election: c.Election})
	e, err := elector.New(elector.Config{
		Backend: b, Strategy: strategy, Election: c.Election, ID: c.ID, Value: []byte(c.Value), TTL: c.TTL, Logger: c.Log, Hooks: metrics.Hooks(),
	})
	if err != nil {
		return err
	}
	if c.HTTP != "" {
		shut, err := serve(ctx, c.HTTP, e, metrics, c.Log)
		if err != nil {
			return err
		}
		defer shut()
	}
	r := &runner{Config: c, interrupted: ctx}
	lead := r.lead
	if c.Label != "" {
		label, err := kubernetes.InClusterLabel(c.Label)
		if err != nil {
			return fmt.Errorf("--label %s: %w", c.Label, err)
		}
		label.Logger = c.Log
		lead = kubernetes.LabelLeader(label, lead)
	}
	c.Log.Info("campaigning", "election", c.Election, "candidate", c.ID, "strategy", c.Strategy)
	err = elector.Run(ctx, e, lead)
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
	defer cancel()
	if unconfirmed := e.Close(bounded); unconfirmed != nil {
		c.Log.Warn("the seat is free when the session has timed out", "err", unconfirmed)
	}
	var over *over
	switch {
	case errors.As(err, &over) && over.code == 0:
		return nil
	case errors.As(err, &over):
		return Exit{over.code}
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return err
}

// over is the error of lead that ends elector.Run.
type over struct{ code int }

func (o *over) Error() string { return fmt.Sprintf("the command has exited with %d", o.code) }
func (o *over) Unwrap() error { return elector.ErrStop }

// A runner runs commands, one after the other.
type runner struct {
	Config
	interrupted context.Context // ends when Run must end
}

// lead runs the command in a term, until the term must end.
func (r *runner) lead(ctx context.Context, t *elector.Term) error {
	for pause := restartMin; ; {
		began := time.Now()
		result, why, err := r.once(ctx, t)
		switch {
		case err != nil:
			return err
		case result == nil: // it was not started
			return context.Cause(ctx)
		case why == "" && !r.Restart, r.Once, r.interrupted.Err() != nil:
			return &over{result.Code}
		case why != "" && ctx.Err() != nil: // it was told to end: no failure
			return context.Cause(ctx)
		case why != "":
			return errors.New(why)
		}
		if time.Since(began) > steady {
			pause = restartMin
		}
		r.Log.Info("the command will be started again", "token", t.Token(), "wait", pause)
		if err := program.Sleep(ctx, pause); err != nil {
			return err
		}
		pause = min(2*pause, restartMax)
	}
}

// once runs the command once. why is the reason for which it was ended, or "" if it has ended by itself. The
// result is nil if the term was about to end before the command began.
func (r *runner) once(ctx context.Context, t *elector.Term) (result *watchdog.Result, why string, err error) {
	w := window{t.Guard().Session, r.Grace}
	if ttl := w.session.TTL(); ttl < shortest {
		return nil, "", fmt.Errorf("a session timeout of %v leaves no time to end a command: ask for %v or more: %w", ttl, shortest, elector.ErrStop)
	}
	for w.near() { // the next heartbeat moves it
		if program.Sleep(ctx, w.pulse()) != nil {
			return nil, "", nil
		}
	}
	// The command acts in the name of this process. If this process dies, the session is ended once the
	// watchdog has said that nothing of the command is left.
	hold, release, err := r.hold()
	if err != nil {
		return nil, "", fmt.Errorf("the command cannot be run: %w", err)
	}
	c, err := watchdog.Start(watchdog.Spec{
		Path: r.Command[0], Args: r.Command[1:], Env: r.env(t), Until: w.closes(),
		Stdin: r.Stdin, Stdout: r.Stdout, Stderr: r.Stderr, Hold: hold,
	})
	if err != nil {
		release()
		return nil, "", fmt.Errorf("the command cannot be run: %w", err)
	}
	ending := r.watch(ctx, t, w, c)
	ended := c.Result()
	if !ended.Left { // else the session has to time out if this process dies
		release()
	}
	if ended.Late { // a busy machine: another term may do
		return nil, "", fmt.Errorf("the command was not started: %s", ended.Failed)
	}
	log := r.Log.With("token", t.Token(), "exit", ended.Code)
	switch {
	case ended.Failed != "":
		log.Error("the command could not be started", "err", ended.Failed)
	case ended.Killed == watchdog.KilledLate || ended.Killed == watchdog.KilledNoWatch:
		log.Warn("the watchdog has killed the command", "why", ended.Killed)
		if ending == "" {
			ending = ended.Killed
		}
	case ended.Signal != 0:
		log.Info("the command has ended", "signal", ended.Signal)
	default:
		log.Info("the command has ended")
	}
	return &ended, ending, nil
}

// hold takes a hold for a command, if anybody heeds it. release releases it.
func (r *runner) hold() (file *os.File, release func(), err error) {
	if r.Hold == nil {
		return nil, func() {}, nil
	}
	h, err := r.Hold()
	if err != nil {
		return nil, nil, err
	}
	return h.File(), func() {
		if err := h.Release(); err != nil {
			r.Log.Warn("should this process die, its session times out", "err", err)
		}
	}, nil
}

// env returns the command's environment.
func (r *runner) env(t *elector.Term) []string {
	return append(os.Environ(),
		"ELECTOR_TOKEN="+strconv.FormatUint(t.Token(), 10),
		"ELECTOR_ID="+r.ID,
		"ELECTOR_ELECTION="+r.Election,
	)
}
