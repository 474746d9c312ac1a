package mutants

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elector-go/elector/backend"
)

// sessionMutants break rules about the life of a session.
var sessionMutants = []Mutant{
	mutant("lost session opened again",
		rules{Backend: {"session/expired"}, "fair": {"sharing/many-elections", "loss/leader-expires"}},
		"After a process has lost its session, Open returns the same session again.",
		ofBackend(func(b backend.Backend) backend.Backend {
			var mu sync.Mutex
			var last *backend.Session
			return &opens{below{b}, func(ctx context.Context, b backend.Backend, o backend.OpenOptions) (*backend.Session, error) {
				mu.Lock()
				defer mu.Unlock()
				if last != nil && last.State() == backend.Lost {
					return last, nil
				}
				s, err := b.Open(ctx, o)
				if err == nil {
					last = s
				}
				return s, err
			}}
		})),
	mutant("loss told as some other error",
		rules{Backend: {"session/expired", "session/close", "many/close"}, "fair": {"loss/waiting-expires", "loss/at-handover", "loss/after-handover"}},
		"The calls of a lost session return an error other than ErrSessionLost.",
		ofSession(told(backend.ErrSessionLost, errors.New("connection closed")))),
	mutant("wait not released at the loss",
		rules{Backend: {"session/expired", "session/close"}, "fair": {"loss/waiting-expires"}},
		"An Await that blocks when the session is lost keeps blocking.",
		ofSession(awaits(func(ctx context.Context, s *backend.Session, known []backend.Entry) ([]backend.Entry, error) {
			now, err := s.Await(ctx, known...)
			if errors.Is(err, backend.ErrSessionLost) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return now, err
		}))),
	mutant("commit beside Close told as not done", rules{Backend: {"session/close-commit"}},
		"A commit that was done, and whose reply comes after Close has begun, returns ErrSessionLost alone, as if it had not been done.",
		ofSession(func(s *backend.Session, o *over) {
			var closed atomic.Bool
			all(closes(func(ctx context.Context, s *backend.Session) error {
				closed.Store(true)
				return s.Close(ctx)
			}), commits(func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
				made, err := c.by(ctx, s)
				if !c.is(backend.OpCompareAndSet) {
					return made, err
				}
				time.Sleep(time.Millisecond) // of a fake clock
				if err == nil && closed.Load() {
					return nil, fmt.Errorf("%w: closed", backend.ErrSessionLost)
				}
				return made, err
			}))(s, o)
		})),
	mutant("loss reported with an error", rules{Backend: {"session/close"}},
		"AwaitState returns an error when the session is lost.",
		ofSession(func(s *backend.Session, o *over) {
			o.awaitState = func(ctx context.Context, prev backend.State) (backend.State, error) {
				state, err := s.AwaitState(ctx, prev)
				if err == nil && state == backend.Lost {
					err = backend.ErrSessionLost
				}
				return state, err
			}
		})),
	mutant("suspension kept secret", rules{Backend: {"session/states"}, "fair": {"loss/short-cut-steps-down"}},
		"A session that is out of touch reports that it is live until it is lost.",
		ofSession(func(s *backend.Session, o *over) {
			o.awaitState = func(ctx context.Context, prev backend.State) (state backend.State, err error) {
				for state, err = s.AwaitState(ctx, prev); err == nil && state == backend.Suspended; {
					state, err = s.AwaitState(ctx, state)
				}
				return state, err
			}
		})),
	mutant("call fails while suspended",
		rules{Backend: {"session/suspended-briefly", "session/suspended-calls", "service/restart"}},
		"A read that cannot be sent because the session is suspended fails at once instead of waiting for the link.",
		ofSession(on(backend.CallGet, func(ctx context.Context, s *backend.Session, c *backend.Call) error {
			if s.State() == backend.Suspended {
				return backend.ErrUnavailable
			}
			return c.By(ctx, s)
		}))),
	mutant("watches forgotten at a reconnection", rules{Backend: {"session/suspended-briefly"}, "fair": {"loss/waiting-cut"}},
		"An Await that survives a cut link starts again from the state after the cut, and misses a change during the cut.",
		ofSession(awaits(forgetWatches))),
	mutant("session given up where it is turned away", rules{Backend: {"session/throttled"}, "fair": {"loss/throttled"}},
		"A session ends when the service rejects a commit for now.",
		ofSession(commits(func(ctx context.Context, s *backend.Session, c commit) ([]backend.Entry, error) {
			soon, cancel := context.WithTimeout(ctx, time.Millisecond)
			defer cancel()
			made, err := c.by(soon, s)
			switch {
			case soon.Err() == nil || ctx.Err() != nil:
				return made, err
			case s.State() == backend.Live:
				_ = s.Close(ctx)
				return nil, backend.ErrSessionLost
			}
			return c.by(ctx, s)
		}))),
	mutant("session given up where it is denied", rules{Backend: {"session/denied"}, "fair": {"loss/denied"}},
		"A session ends when its credentials do not allow a commit.",
		ofSession(refused(backend.ErrDenied, func(ctx context.Context, s *backend.Session, _ commit) ([]backend.Entry, error) {
			_ = s.Close(ctx)
			return nil, backend.ErrSessionLost
		}))),
	mutant("close tells the service nothing", rules{Backend: {"session/close"}},
		"Close leaves the session to its timeout instead of ending it in the service.",
		ofOpened(func(b backend.Backend, s *backend.Session) *backend.Session {
			return worsened(s, closes(func(ctx context.Context, s *backend.Session) error {
				if at, ok := b.(link); ok && s.State() == backend.Live {
					at.Suspend()
					defer at.Resume()
					_ = s.Close(ctx) // it stays unconfirmed
					return nil
				}
				return s.Close(ctx)
			}))
		})),
	mutant("close takes others along", rules{Backend: {"many/sessions"}},
		"Closing one session of a process closes all its sessions.",
		ofBackend(func(b backend.Backend) backend.Backend {
			var all hoard[*backend.Session]
			return &opens{below{b}, func(ctx context.Context, b backend.Backend, o backend.OpenOptions) (*backend.Session, error) {
				s, err := b.Open(ctx, o)
				if err != nil {
					return nil, err
				}
				all.keep(s)
				return worsened(s, closes(func(ctx context.Context, _ *backend.Session) error {
					all.mu.Lock()
					defer all.mu.Unlock()
					var err error
					for _, each := range all.all {
						err = errors.Join(err, each.Close(ctx))
					}
					return err
				})), nil
			}}
		})),
	mutant("close again says nil", rules{Backend: {"session/close-suspended"}},
		"A second Close returns nil even if the first one failed.",
		ofSession(func(s *backend.Session, o *over) {
			var closed atomic.Bool
			closes(func(ctx context.Context, s *backend.Session) error {
				if closed.Swap(true) {
					return nil
				}
				return s.Close(ctx)
			})(s, o)
		})),
	mutant("one session of a process comes back", rules{Backend: {"session/states"}},
		"When the link of a process is back, only its first session is live again.",
		ofBackend(func(b backend.Backend) backend.Backend {
			var opened, cut atomic.Bool
			return &opens{below{b}, func(ctx context.Context, b backend.Backend, o backend.OpenOptions) (*backend.Session, error) {
				s, err := b.Open(ctx, o)
				if err != nil {
					return nil, err
				}
				first := !opened.Swap(true)
				return worsened(s, func(s *backend.Session, o *over) {
					o.awaitState = func(ctx context.Context, prev backend.State) (backend.State, error) {
						state, err := s.AwaitState(ctx, prev)
						cut.CompareAndSwap(false, state == backend.Suspended)
						return state, err
					}
					o.state = func() backend.State {
						state := s.State()
						if state == backend.Live && cut.Load() && !first {
							return backend.Suspended
						}
						return state
					}
				}), nil
			}}
		})),
	mutant("unconfirmed close says nil", rules{Backend: {"session/close-suspended"}},
		"Close of a session that is out of touch returns nil although the service has confirmed nothing.",
		ofSession(closes(func(ctx context.Context, s *backend.Session) error {
			_ = s.Close(ctx) // ignored: that is the fault
			return nil
		}))),
}

// forgetWatches makes an Await start again after each cut.
func forgetWatches(ctx context.Context, s *backend.Session, known []backend.Entry) ([]backend.Entry, error) {
	for {
		waiting, cut := context.WithCancel(ctx)
		suspended := make(chan struct{})
		go func() {
			defer close(suspended)
			if state, err := s.AwaitState(waiting, backend.Live); err == nil && state == backend.Suspended {
				cut()
			}
		}()
		out, err := s.Await(waiting, known...)
		wasCut := waiting.Err() != nil
		cut()
		<-suspended
		if !wasCut || ctx.Err() != nil || s.State() == backend.Lost {
			return out, err
		}
		if known, err = now(ctx, s, known); err != nil { // waits for the link
			return nil, err
		}
	}
}

// windowMutants break rules about the trust window.
var windowMutants = []Mutant{
	mutant("window anchored at the answer", rules{Backend: {"session/suspended-too-long"}},
		"The deadline counts from the reply to a heartbeat instead of its sending, and heartbeats take a quarter of the timeout.",
		ofSession(func(s *backend.Session, o *over) {
			o.deadline = func() time.Time { return s.Deadline().Add(s.TTL() / 4) }
		})),
	mutant("window that never ends",
		rules{Backend: {"session/suspended-too-long", "session/expired"}, "fair": {"loss/deadline", "fence/overdue"}},
		"The deadline is always ahead of the clock, whether or not the session is in touch.",
		ofSession(aheadOfClock),
		ofTrusted(aheadOfClock)),
	mutant("window not extended", rules{Backend: {"session/deadline"}, "fair": {"loss/short-cut-held"}},
		"The deadline never moves from where it was when the session was opened.",
		ofSession(func(s *backend.Session, o *over) {
			first := s.Deadline()
			o.deadline = func() time.Time { return first }
		})),
}

func aheadOfClock(s *backend.Session, o *over) {
	o.deadline = func() time.Time { return time.Now().Add(s.TTL()) }
}

// willMutants break rules about wills.
var willMutants = []Mutant{
	mutant("will said to be executed before it is", rules{Backend: {"will/executed", "will/out-of-touch", "will/one"}},
		"Execute returns before the service has confirmed that the session is over.",
		ofBackend(executing(func(ctx context.Context, b below, w backend.Will) error {
			go func() {
				time.Sleep(w.TTL / 100)
				_ = b.Execute(context.WithoutCancel(ctx), w) // nobody learns the result
			}()
			return nil
		}))),
	mutant("will executed when the session times out",
		rules{Backend: {"will/executed", "will/out-of-touch"}, "fair": {"loss/process-dies"}},
		"Execute waits until the service has ended the session by its timeout.",
		ofBackend(executing(func(ctx context.Context, b below, w backend.Will) error {
			select {
			case <-time.After(w.TTL):
			case <-ctx.Done():
				return ctx.Err()
			}
			return b.Execute(ctx, w)
		}))),
	mutant("will ends the next session, too", rules{Backend: {"will/one"}},
		"Execute ends the session of the will and the session that was opened after it.",
		ofBackend(executing(func(ctx context.Context, b below, w backend.Will) error {
			err := b.Execute(ctx, w)
			var n uint64
			if _, no := fmt.Sscanf(w.Session, "s%d", &n); no != nil {
				return err
			}
			w.Session = fmt.Sprintf("s%d", n+1) // memory names sessions like this
			return errors.Join(err, b.Execute(ctx, w))
		}))),
	mutant("old will said to be executed", rules{Backend: {"will/out-of-touch"}},
		"Execute returns nil and does nothing if the will's session was opened longer ago than its timeout.",
		ofBackend(func(b backend.Backend) backend.Backend {
			return &executes{below{&opens{below{b}, func(ctx context.Context, b backend.Backend, o backend.OpenOptions) (*backend.Session, error) {
				s, err := b.Open(ctx, o)
				if err == nil {
					openedAt.Store(s.ID(), time.Now())
				}
				return s, err
			}}}, func(ctx context.Context, b below, w backend.Will) error {
				if at, is := openedAt.Load(w.Session); is && time.Since(at.(time.Time)) > w.TTL {
					return nil
				}
				return b.Execute(ctx, w)
			}}
		})),
	mutant("will executed without its secret", rules{Backend: {"will/wrong"}},
		"Execute does not check the secret.",
		ofBackend(executing(func(ctx context.Context, b below, w backend.Will) error {
			w.Secret = nil
			return b.Execute(ctx, w)
		}))),
	mutant("will given up while no server answers", rules{Backend: {"will/down"}},
		"Execute returns ErrUnavailable at once if no server answers.",
		ofBackend(executing(func(ctx context.Context, b below, w backend.Will) error {
			soon, cancel := context.WithTimeout(ctx, time.Millisecond)
			defer cancel()
			err := b.Execute(soon, w)
			if soon.Err() != nil {
				return backend.ErrUnavailable
			}
			return err
		}))),
	mutant("denied will said to be executed", rules{Backend: {"will/refused"}},
		"Execute returns nil although the service has denied it.",
		ofBackend(executing(func(ctx context.Context, b below, w backend.Will) error {
			err := b.Execute(ctx, w)
			if errors.Is(err, backend.ErrDenied) {
				return nil
			}
			return err
		}))),
	mutant("will that is turned away said to be executed", rules{Backend: {"will/refused", "will/down"}},
		"Execute tries once, and returns nil even if the service has rejected that try.",
		ofBackend(executing(func(ctx context.Context, b below, w backend.Will) error {
			soon, cancel := context.WithTimeout(ctx, time.Millisecond)
			defer cancel()
			err := b.Execute(soon, w)
			if soon.Err() != nil {
				return nil
			}
			return err
		}))),
}

// openedAt has the opening time of a mutant's sessions, by ID: another process needs it.
var openedAt sync.Map

// executing is the backend of a mutant that replaces Execute.
func executing(execute func(context.Context, below, backend.Will) error) func(backend.Backend) backend.Backend {
	return func(b backend.Backend) backend.Backend { return &executes{below{b}, execute} }
}

type executes struct {
	below
	execute func(context.Context, below, backend.Will) error
}

func (b *executes) Execute(ctx context.Context, w backend.Will) error {
	return b.execute(ctx, b.below, w)
}
