package zookeeper

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
	"github.com/elector-go/elector/backend/zookeeper/internal/wire"
)

// awaitLive blocks until the session is live on a link later than the given one, and returns that link.
func (s *session) awaitLive(ctx context.Context, after uint64) (uint64, error) {
	for {
		s.Mu.Lock()
		state, changed := s.Peek()
		gen := s.gen
		s.Mu.Unlock()
		if state == backend.Live && gen > after {
			return gen, s.Over(ctx)
		}
		if err := s.Wait(ctx, changed); err != nil {
			return 0, err
		}
	}
}

// read repeats a call until it is answered; the call must be repeatable.
func read[T any](ctx context.Context, s *session, do func() (T, error)) (T, error) {
	var refused tries
	for after := uint64(0); ; {
		gen, err := s.awaitLive(ctx, after)
		if err != nil {
			var zero T
			return zero, err
		}
		v, err := driver.Call(ctx, &s.Life, do)
		switch {
		case err == nil:
			return v, nil
		case transient(err):
			s.leave(gen, err)
			after = gen
		case !passing(err) || !refused.again(ctx, s, err):
			return v, s.explain(err)
		}
	}
}

// leave gives up a link that still exists although the server has reported that it does not serve the
// session on it. Nothing else would distinguish it from a link on which a reply is yet to come.
func (s *session) leave(gen uint64, err error) {
	if err != nil && mean(err).Is(driver.Over) {
		s.cut(gen)
	}
}

// cut ends a link, if the session is still live on it: the client library then makes the next one. It
// does not affect a link that is being made.
func (s *session) cut(gen uint64) {
	if s.on(gen) {
		s.pin.Cut()
	}
}

// on reports whether the session is live on a link. While it is not, the client library keeps requests for the next
// link.
func (s *session) on(gen uint64) bool {
	now, live := s.linked()
	return live && now == gen
}

// makeRoom makes the buffer large enough for a request of that many bytes that is sent after makeRoom
// has returned. If the buffer is too small, makeRoom first sends the server a small request: so the
// sending goroutine gets to replace the buffer, or there is another link, which begins with replacing
// it. It blocks until that request is answered, or the session is over.
func (s *session) makeRoom(request int) {
	if s.pin.Reserve(request+sendSlack, s.cfg.MaxRequest+sendSlack) {
		_, _, _ = s.conn.Exists("/") // errors do not matter: the next request reports them
	}
}

// explain adds the cause of wire.CodeTooLong, and who lacks a right.
func (s *session) explain(err error) error {
	switch code, _ := codeOf(err); code {
	case wire.CodeTooLong:
		return fmt.Errorf("an answer was over Config.MaxResponse (%d bytes): %w", s.cfg.MaxResponse, err)
	case -102: // NOAUTH
		return fmt.Errorf("this client has %s: %w", s.cfg.credentials(), err)
	}
	return err
}

// credentials says as whom the client is known, without secrets.
func (c *Config) credentials() string {
	var all []string
	if c.SASL != nil {
		all = append(all, fmt.Sprintf("SASL with %v", c.SASL))
	}
	for _, auth := range c.Auth {
		all = append(all, "Auth of the scheme "+auth.Scheme)
	}
	if c.TLS != nil || c.GetTLS != nil {
		all = append(all, "TLS")
	}
	return cmp.Or(strings.Join(all, ", "), "no credentials")
}
