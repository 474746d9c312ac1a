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
func sessionMutants() []Mutant {
	return []Mutant{
		{
			Name:   "session carries on in a new one",
			Breaks: "When the service has ended the session, the next call silently opens another in its place, and goes on with that.",
			Rules: map[string][]string{
				Backend: {"session/expired", "session/lost-for-good"},
				"fair":  {"loss/leader-expires"},
			},
			session: pointer(carryOn),
		},
		{
			Name:   "lost session opened again",
			Breaks: "A process that has lost its session is given the same one when it opens another.",
			Rules:  map[string][]string{Backend: {"session/lost-for-good"}, "fair": {"sharing/many-elections", "loss/leader-expires"}},
			backend: func(b backend.Backend) backend.Backend {
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
			},
		},
		{
			Name:   "loss told as some other error",
			Breaks: "The calls of a lost session return an error that is not ErrSessionLost.",
			Rules:  map[string][]string{Backend: {"session/expired", "session/close", "many/close"}, "fair": {"loss/waiting-expires", "loss/expires-at-handover", "loss/expires-after-handover"}},
			session: calls(func(s *backend.Session, o *over) {
				o.mapErrors(func(err error) error {
					if errors.Is(err, backend.ErrSessionLost) {
						return errors.New("connection closed")
					}
					return err
				})
			}),
		},
		{
			Name:   "wait not released at the loss",
			Breaks: "An Await that blocks when the session is lost goes on blocking.",
			Rules:  map[string][]string{Backend: {"session/expired", "session/close"}, "fair": {"loss/waiting-expires"}},
			session: calls(func(s *backend.Session, o *over) {
				o.await = func(ctx context.Context, known ...backend.Entry) ([]backend.Entry, error) {
					now, err := s.Await(ctx, known...)
					if errors.Is(err, backend.ErrSessionLost) {
						<-ctx.Done()
						return nil, ctx.Err()
					}
					return now, err
				}
			}),
		},
		{
			Name:   "commit beside Close told as not done",
			Breaks: "A commit that is done, and answered after Close has begun, returns that the session is lost.",
			Rules:  map[string][]string{Backend: {"session/close-commit"}},
			session: calls(func(s *backend.Session, o *over) {
				var closed atomic.Bool
				o.close = func(ctx context.Context) error {
					closed.Store(true)
					return s.Close(ctx)
				}
				o.commit = func(ctx context.Context, guards []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
					made, err := s.Commit(ctx, guards, ops...)
					if len(ops) != 1 || ops[0].Kind != backend.OpCompareAndSet {
						return made, err
					}
					time.Sleep(time.Millisecond) // of a fake clock
					if err == nil && closed.Load() {
						return nil, fmt.Errorf("%w: closed", backend.ErrSessionLost)
					}
					return made, err
				}
			}),
		},
		{
			Name:   "loss reported with an error",
			Breaks: "AwaitState returns an error when the session is lost.",
			Rules:  map[string][]string{Backend: {"session/await-state"}},
			session: calls(func(s *backend.Session, o *over) {
				o.awaitState = func(ctx context.Context, prev backend.State) (backend.State, error) {
					state, err := s.AwaitState(ctx, prev)
					if err == nil && state == backend.Lost {
						err = backend.ErrSessionLost
					}
					return state, err
				}
			}),
		},
		{
			Name:   "suspension kept secret",
			Breaks: "A session that is out of touch says that it is live until it is lost.",
			Rules:  map[string][]string{Backend: {"session/states"}, "fair": {"loss/short-cut-steps-down"}},
			session: calls(func(s *backend.Session, o *over) {
				o.state = func() backend.State {
					if s.State() == backend.Lost {
						return backend.Lost
					}
					return backend.Live
				}
				o.awaitState = func(ctx context.Context, prev backend.State) (backend.State, error) {
					if prev != backend.Live {
						return o.state(), nil
					}
					for state := prev; ; {
						var err error
						if state, err = s.AwaitState(ctx, state); err != nil || state == backend.Lost {
							return state, err
						}
					}
				}
			}),
		},
		{
			Name:   "suspended session given up",
			Breaks: "A session that is out of touch for a moment is closed instead of waiting for the link.",
			Rules:  map[string][]string{Backend: {"session/suspended-briefly"}, "fair": {"loss/short-cut-held", "loss/waiting-cut"}},
			session: calls(func(s *backend.Session, o *over) {
				go func() {
					state, err := s.AwaitState(context.Background(), backend.Live)
					if err == nil && state == backend.Suspended {
						_ = s.Close(context.Background()) // out of touch it cannot be confirmed
					}
				}()
			}),
		},
		{
			Name:   "call fails while suspended",
			Breaks: "A read that cannot be sent because the session is suspended fails at once instead of waiting for the link.",
			Rules:  map[string][]string{Backend: {"session/suspended-briefly", "session/suspended-calls", "service/restart"}},
			session: calls(func(s *backend.Session, o *over) {
				o.get = func(ctx context.Context, key string) (backend.Entry, error) {
					if s.State() == backend.Suspended {
						return backend.Entry{}, backend.ErrUnavailable
					}
					return s.Get(ctx, key)
				}
			}),
		},
		{
			Name:    "watches forgotten at a reconnection",
			Breaks:  "An Await that goes on after a cut begins anew from what is there then: a change during the cut is missed.",
			Rules:   map[string][]string{Backend: {"session/suspended-briefly"}, "fair": {"loss/waiting-cut"}},
			session: calls(forgetWatches),
		},
		{
			Name:   "cancelled write sent later",
			Breaks: "A commit that is cancelled while the session is suspended is done all the same when the link is back.",
			Rules:  map[string][]string{Backend: {"session/suspended-calls"}},
			session: calls(func(s *backend.Session, o *over) {
				o.commit = func(ctx context.Context, guards []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
					if s.State() != backend.Suspended {
						return s.Commit(ctx, guards, ops...)
					}
					var made []backend.Entry
					err := error(nil)
					done := make(chan struct{})
					go func() {
						defer close(done)
						made, err = s.Commit(context.WithoutCancel(ctx), guards, ops...)
					}()
					select {
					case <-done:
						return made, err
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				}
			}),
		},
		{
			Name:   "session given up where it is turned away",
			Breaks: "A session ends when the service turns a commit away for now.",
			Rules:  map[string][]string{Backend: {"session/throttled"}, "fair": {"loss/throttled"}},
			session: calls(func(s *backend.Session, o *over) {
				o.commit = func(ctx context.Context, guards []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
					made, turnedAway, err := promptly(ctx, s, func(ctx context.Context) ([]backend.Entry, error) {
						return s.Commit(ctx, guards, ops...)
					})
					if turnedAway {
						_ = s.Close(ctx)
						return nil, backend.ErrSessionLost
					}
					return made, err
				}
			}),
		},
		{
			Name:   "no pause where all is turned away",
			Breaks: "A read that the service turns away for now is asked again at once.",
			Rules:  map[string][]string{Backend: {"session/throttled"}},
			session: calls(func(s *backend.Session, o *over) {
				o.get = func(ctx context.Context, key string) (backend.Entry, error) {
					for {
						e, turnedAway, err := promptly(ctx, s, func(ctx context.Context) (backend.Entry, error) { return s.Get(ctx, key) })
						if !turnedAway {
							return e, err
						}
					}
				}
			}),
		},
		{
			Name:   "session given up where it is denied",
			Breaks: "A session ends when its credentials do not allow a commit.",
			Rules:  map[string][]string{Backend: {"session/denied"}, "fair": {"loss/denied"}},
			session: calls(func(s *backend.Session, o *over) {
				o.commit = func(ctx context.Context, guards []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
					made, err := s.Commit(ctx, guards, ops...)
					if errors.Is(err, backend.ErrDenied) {
						_ = s.Close(ctx)
						return nil, backend.ErrSessionLost
					}
					return made, err
				}
			}),
		},
		{
			Name:   "what is denied is asked for ever",
			Breaks: "A read that the credentials do not allow is tried again until its context ends.",
			Rules:  map[string][]string{Backend: {"session/denied"}},
			session: calls(func(s *backend.Session, o *over) {
				o.get = func(ctx context.Context, key string) (backend.Entry, error) {
					for {
						e, err := s.Get(ctx, key)
						if !errors.Is(err, backend.ErrDenied) {
							return e, err
						}
						time.Sleep(time.Millisecond)
					}
				}
			}),
		},
		{
			Name:   "denied drop forgotten",
			Breaks: "A Drop that the credentials do not allow does not go on when they do.",
			Rules:  map[string][]string{Backend: {"session/denied"}},
			session: calls(func(s *backend.Session, o *over) {
				o.drop = func(ctx context.Context, e backend.Entry) error {
					_, err := s.Commit(ctx, nil, backend.Delete(e))
					if errors.Is(err, backend.ErrDenied) {
						return err
					}
					return s.Discard(ctx, e)
				}
			}),
		},
		{
			Name:   "close tells the service nothing",
			Breaks: "Close leaves the session to its timeout instead of ending it in the service.",
			Rules:  map[string][]string{Backend: {"session/close"}},
			session: pointer(func(b backend.Backend, _ backend.OpenOptions, s *backend.Session) *backend.Session {
				o := over{Session: s, close: func(ctx context.Context) error {
					if link, ok := b.(interface {
						Suspend()
						Resume()
					}); ok && s.State() == backend.Live {
						link.Suspend()
						defer link.Resume()
						_ = s.Close(ctx) // which is not confirmed
						return nil
					}
					return s.Close(ctx)
				}}
				return o.worse()
			}),
		},
		{
			Name:    "close takes others along",
			Breaks:  "Closing one session of a process closes all of them.",
			Rules:   map[string][]string{Backend: {"session/close-one"}},
			backend: func(b backend.Backend) backend.Backend { return &together{below: below{b}} },
		},
		{
			Name:   "unconfirmed close says nil",
			Breaks: "Close of a session that is out of touch returns nil though the service has confirmed nothing.",
			Rules:  map[string][]string{Backend: {"session/close-suspended"}},
			session: calls(func(s *backend.Session, o *over) {
				o.close = func(ctx context.Context) error {
					_ = s.Close(ctx) // that is the fault
					return nil
				}
			}),
		},
	}
}

func pointer(o opener) *opener { return &o }

// carryOn replaces the session when it is lost, as long as nobody has closed it.
func carryOn(b backend.Backend, o backend.OpenOptions, first *backend.Session) *backend.Session {
	var mu sync.Mutex
	closed, at := false, first
	current := func(ctx context.Context) *backend.Session {
		mu.Lock()
		defer mu.Unlock()
		if at.State() == backend.Lost && !closed {
			if next, err := b.Open(ctx, o); err == nil {
				at = next
			}
		}
		return at
	}
	id := first.ID()
	with := over{
		Session:  first,
		id:       func() string { return id },
		deadline: func() time.Time { return current(context.Background()).Deadline() },
		state:    func() backend.State { return current(context.Background()).State() },
		awaitState: func(ctx context.Context, prev backend.State) (backend.State, error) {
			return current(ctx).AwaitState(ctx, prev)
		},
		get: func(ctx context.Context, key string) (backend.Entry, error) { return current(ctx).Get(ctx, key) },
		survey: func(ctx context.Context, key string, known func(backend.Entry) string) (backend.Entry, []string, error) {
			return current(ctx).Survey(ctx, key, known)
		},
		children: func(ctx context.Context, key string, most int) ([]string, bool, error) {
			return current(ctx).Children(ctx, key, most)
		},
		list: func(ctx context.Context, dir string) (backend.Listing, error) {
			return current(ctx).List(ctx, dir)
		},
		awaitList: func(ctx context.Context, known backend.Listing) (backend.Listing, error) {
			return current(ctx).AwaitList(ctx, known)
		},
		predecessor: func(ctx context.Context, e backend.Entry) (backend.Entry, error) {
			return current(ctx).Predecessor(ctx, e)
		},
		await: func(ctx context.Context, known ...backend.Entry) ([]backend.Entry, error) {
			return current(ctx).Await(ctx, known...)
		},
		commit: func(ctx context.Context, guards []backend.Condition, ops ...backend.Op) ([]backend.Entry, error) {
			return current(ctx).Commit(ctx, guards, ops...)
		},
		drop: func(ctx context.Context, e backend.Entry) error { return current(ctx).Discard(ctx, e) },
		close: func(ctx context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			closed = true
			return errors.Join(first.Close(ctx), at.Close(ctx))
		},
	}
	return with.worse()
}

// forgetWatches makes an Await begin anew after each cut.
func forgetWatches(s *backend.Session, o *over) {
	o.await = func(ctx context.Context, known ...backend.Entry) ([]backend.Entry, error) {
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
			if known, err = now(ctx, s, known); err != nil { // which waits for the link
				return nil, err
			}
		}
	}
}

// together is a process whose sessions are closed together.
type together struct {
	below
	mu  sync.Mutex
	all []*backend.Session
}

func (b *together) Open(ctx context.Context, o backend.OpenOptions) (*backend.Session, error) {
	s, err := b.Backend.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, s)
	with := over{Session: s, close: func(ctx context.Context) error {
		b.mu.Lock()
		defer b.mu.Unlock()
		err := s.Close(ctx)
		for _, other := range b.all {
			err = errors.Join(err, other.Close(ctx))
		}
		return err
	}}
	return with.worse(), nil
}

// promptly calls, and does not wait for long where the service has turned the call away.
func promptly[T any](ctx context.Context, s *backend.Session, call func(context.Context) (T, error)) (v T, turnedAway bool, err error) {
	soon, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	v, err = call(soon)
	switch {
	case soon.Err() == nil || ctx.Err() != nil:
		return v, false, err
	case s.State() == backend.Live:
		return v, true, err
	}
	v, err = call(ctx)
	return v, false, err
}
