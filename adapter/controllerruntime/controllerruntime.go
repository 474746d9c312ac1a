package electorcontrollerruntime

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/elector-go/elector"
)

// client-go's election in the manager asks the lock until it says yes, and then never gives up: the term ends
// without it. client-go wants leaseDuration > renewDeadline > 1.2 × retryPeriod, and counts the first in seconds,
// as an int.
const (
	leaseDuration = 2 * renewDeadline
	renewDeadline = 30 * 365 * 24 * time.Hour
	retryPeriod   = time.Hour
)

// NewManager is manager.New, or ctrl.NewManager, for a manager whose leader e elects. It decides itself what the
// options for leader election and leases say; LeaderElectionID remains the name in client-go's metrics. Nothing
// else may campaign with e.
func NewManager(cfg *rest.Config, e elector.Elector, o manager.Options) (manager.Manager, error) {
	m := &managed{e: e, lock: newLock(), waits: o.GracefulShutdownTimeout == nil || *o.GracefulShutdownTimeout != 0}
	o.LeaderElection = true
	o.LeaderElectionResourceLockInterface = m.lock
	o.LeaseDuration, o.RenewDeadline, o.RetryPeriod = new(leaseDuration), new(renewDeadline), new(retryPeriod)
	o.BaseContext = m.lock.baseContext(o.BaseContext)
	var err error
	if m.Manager, err = manager.New(cfg, o); err != nil {
		return nil, err
	}
	return m, nil
}

// A managed is the manager that NewManager returns.
type managed struct {
	manager.Manager
	e     elector.Elector
	lock  *lock
	waits bool // the Manager waits for its runnables when it stops
}

// Start implements manager.Manager.
func (m *managed) Start(caller context.Context) error {
	ctx, stop := context.WithCancelCause(caller) // of the manager and the candidacy
	stopped, withdrawn := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(withdrawn)
		select {
		case <-m.lock.wanted: // the caches are ready
			stop(elector.Run(ctx, m.e, func(ctx context.Context, t *elector.Term) error {
				return m.lock.lead(ctx, t, stop, stopped)
			}))
		case <-ctx.Done():
		}
	}()

	ended := make(chan error, 1)
	go func() { ended <- m.Manager.Start(ctx) }()
	var err error
	select {
	case err = <-ended:
	case <-m.lock.lost.Done():
	}
	if m.lock.lost.Err() != nil {
		return fmt.Errorf("electorcontrollerruntime: the term is over, and the process must exit: %w", context.Cause(m.lock.lost))
	}
	late := !m.waits || errors.Is(err, context.DeadlineExceeded) // of GracefulShutdownTimeout, or of a runnable
	if why := context.Cause(ctx); why != nil && caller.Err() == nil {
		err = errors.Join(err, fmt.Errorf("electorcontrollerruntime: the manager has stopped: %w", why))
	}
	if late && m.lock.term.Load() != nil {
		return errors.Join(err, errors.New("electorcontrollerruntime: runnables may not have returned; the seat is kept, and the process must exit"))
	}
	stop(nil)
	close(stopped)
	<-withdrawn
	return err
}

// A lock answers client-go's election in a manager.
type lock struct {
	want    func()             // closes wanted
	wanted  chan struct{}      // closed when the manager wants to lead
	offered chan *elector.Term // from lead to Get
	term    atomic.Pointer[elector.Term]
	ends    []context.CancelCauseFunc // of the runnables' contexts
	lost    context.Context           // ends with the manager's term, unless the manager has stopped before; has its cause
	lose    context.CancelCauseFunc
}

func newLock() *lock {
	l := &lock{wanted: make(chan struct{}), offered: make(chan *elector.Term)}
	l.want = sync.OnceFunc(func() { close(l.wanted) })
	l.lost, l.lose = context.WithCancelCause(context.Background())
	return l
}

// baseContext returns base, or context.Background, with contexts that also end when the term is lost. Only
// manager.New calls it, for each group of runnables.
func (l *lock) baseContext(base manager.BaseContextFunc) manager.BaseContextFunc {
	if base == nil {
		base = context.Background
	}
	return func() context.Context {
		ctx, end := context.WithCancelCause(base())
		l.ends = append(l.ends, end)
		return ctx
	}
}

// lead is the lead function of elector.Run. A manager leads once: when the term ends, the manager must have
// stopped, or it is lost.
func (l *lock) lead(ctx context.Context, t *elector.Term, stop context.CancelCauseFunc, stopped <-chan struct{}) error {
	select {
	case l.offered <- t:
	case <-ctx.Done():
		return nil
	}
	<-ctx.Done()
	if t.Context().Err() == nil {
		stop(context.Cause(ctx)) // somebody asked the leader to go; otherwise it stops already
		select {
		case <-stopped:
			return nil
		case <-t.Context().Done():
		}
	}
	cause := context.Cause(t.Context())
	for _, end := range l.ends {
		end(cause)
	}
	l.lose(cause)
	return elector.ErrStop
}

// holds asks the clock, so it is right in a process that was paused.
func (l *lock) holds() bool {
	t := l.term.Load()
	return t != nil && t.Valid()
}

// Get implements resourcelock.Interface. It blocks until this process has been elected once.
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	l.want()
	if l.term.Load() == nil {
		select {
		case t := <-l.offered:
			l.term.Store(t)
		case <-ctx.Done():
		}
	}
	holder := "another process"
	if l.holds() {
		holder = l.Identity()
	}
	return &resourcelock.LeaderElectionRecord{HolderIdentity: holder, LeaseDurationSeconds: math.MaxInt32}, []byte(holder), nil
}

// Create implements resourcelock.Interface.
func (l *lock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, r)
}

// Update implements resourcelock.Interface. A record without a holder comes from LeaderElectionReleaseOnCancel,
// perhaps while runnables still run: Start releases the seat, later.
func (l *lock) Update(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	if r.HolderIdentity != "" && !l.holds() {
		return errors.New("electorcontrollerruntime: this process does not lead")
	}
	return nil
}

// RecordEvent implements resourcelock.Interface. The elector has hooks and a log.
func (l *lock) RecordEvent(string) {}

// Identity implements resourcelock.Interface.
func (l *lock) Identity() string { return "this process" }

// Describe implements resourcelock.Interface.
func (l *lock) Describe() string { return "elector" }
