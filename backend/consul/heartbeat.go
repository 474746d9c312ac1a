package consul

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// A lease keeps a session alive: its TTL at the servers and, with Config.Check, a health check.
type lease struct {
	ttl     time.Duration // how long entries are sure to stay after the last heartbeat
	timeout time.Duration // of the session at the servers
	check   string        // the ID of the check, and of its service, or ""
	sent    time.Time     // when the check was first passed
}

// patience is how long to wait for the reply to a request that is no heartbeat. A write that is given
// up is kept from being done later, and sent again: with too little patience and slow servers, none
// would ever succeed.
func (l lease) patience() time.Duration { return max(l.ttl/3, 5*time.Second) }

// margin is how much shorter than the TTL the trust window is: see beat.
func (l lease) margin() time.Duration { return l.ttl / 20 }

// covers reports whether a session that was renewed at renewed is sure to live as long as a window that
// counts from sent.
func (l lease) covers(sent, renewed time.Time) bool {
	return sent.Add(l.ttl).Before(renewed.Add(l.timeout - l.timeout/20))
}

// every is the time between heartbeats.
func (l lease) every() time.Duration { return (l.ttl - l.margin()) / 3 }

// beats is what the heartbeats of a session go by.
type beats struct {
	renewed, looked time.Time // when the last renewal and the last look that were answered were sent
	pause           driver.Pause
}

// beat renews the session on its own schedule: api.Session.RenewPeriodic retries by rules that do not
// consider the window.
//
// The window counts from when an acknowledged renewal was SENT. That is safe no matter what happens to the
// leader, but not against what ends a session at once: see DESIGN.md, "The window".
//
// An agent that does not know the check is being reloaded, or has lost it: then the servers end the
// session as soon as the agent reports that, and the renewal says so.
//
// A reply that there is no such session ends it, once a consistent read has confirmed that: see renew.
// Everything else (no leader, 5xx, 429, a refused token, no reply) says nothing about the session, and
// is ridden out until the window ends.
//
// A renewal says nothing about what is awaited either: a look at that follows it, in the same interval.
// Without it the session is not Live, and the window does not move: a leader whose disk stalls answers
// renewals, and no look. With a check, looks are more frequent than renewals: a notice must be in time by
// the TTL that the session has.
func (s *session) beat(b *beats) time.Duration {
	// With a check the session needs renewals less often.
	live, every := s.State() == backend.Live, s.lease.every()
	renew := s.lease.check == "" || !live || time.Since(b.renewed) > s.lease.timeout/4
	sent := time.Now()
	err := s.within(every, func(ctx context.Context) error { return s.beatOnce(ctx, renew, sent, b.renewed) })
	if err == nil && (renew || time.Since(b.looked) > s.lease.ttl-every) {
		if err = s.within(every-time.Since(sent), s.watches.look); err == nil {
			b.looked = sent
		}
	}
	switch {
	case err == nil:
		s.Extend(sent)
		if renew {
			b.renewed = sent
		}
		if s.Resume() {
			s.watches.restart()
		}
		b.pause = driver.Pause{}
		return every - min(time.Since(sent), every/2)
	case errors.Is(err, errExpired):
		s.Lose(err)
	default:
		s.Suspend(err)
	}
	return min(b.pause.Next(), every/4)
}

// trouble makes the session check at once whether it is still in touch, after a request without a
// reply.
func (s *session) trouble() {
	if s.State() == backend.Live {
		s.BeatSoon()
	}
}

// beatOnce sends the heartbeats.
//
// A check that was passed extends the window even if the session cannot be renewed, for as long as the
// last renewal covers it: nobody can renew while the servers elect a leader, which may take longer than
// a check's TTL.
func (s *session) beatOnce(ctx context.Context, renew bool, sent, renewed time.Time) error {
	var err error
	if s.lease.check != "" {
		err = s.b.pass(ctx, s.lease)
		if err == nil && s.lease.covers(sent, renewed) {
			s.Extend(sent)
		}
	}
	if renew && (err == nil || errors.Is(err, errNoCheck)) {
		if why := s.renew(ctx); why != nil {
			err = why
		}
	}
	return err
}

// within does a part of a heartbeat. It does not rely on the client to respect a time limit.
func (s *session) within(limit time.Duration, do func(context.Context) error) error {
	ctx, cancel := limited(s.Ctx, limit)
	defer cancel()
	_, err := driver.Call(ctx, &s.Life, func() (struct{}, error) { return struct{}{}, do(ctx) })
	if errors.Is(err, context.DeadlineExceeded) {
		err = errSilent
	}
	return err
}

// renew renews the session at the servers.
//
// A reply that there is none proves nothing yet: servers answer a renewal from what they have read of
// their log so far. A new leader, such as a single server after its restart, may not have read of the
// session, and one that was deposed, and does not know it, never will. A consistent read waits until
// the leader has read all, and fails if it does not lead. The read renews nothing: a session that it
// finds must still be renewed.
func (s *session) renew(ctx context.Context) error {
	entry, _, err := s.b.client.Session().Renew(s.ID(), new(api.WriteOptions).WithContext(ctx))
	if entry != nil || err != nil && code(err) != http.StatusNotFound {
		return err
	}
	switch entry, err = s.read(ctx); {
	case err != nil:
		return err
	case entry == nil:
		return errExpired
	}
	return errUnread
}

// read reads what the servers know of the session, once: nil if they do not know it.
func (s *session) read(ctx context.Context) (*api.SessionEntry, error) { return s.b.read(ctx, s.ID()) }

func (b *Backend) read(ctx context.Context, id string) (*api.SessionEntry, error) {
	entry, meta, err := b.client.Session().Info(id, consistent(ctx))
	if err = vouched(entry == nil, meta, err); err == nil && entry == nil {
		err = unfiltered("sessions", meta)
	}
	return entry, err
}
