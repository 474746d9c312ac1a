package memory

import (
	"context"
	"errors"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// WillSecret implements backend.Testator: there is no secret.
func (n *session) WillSecret() []byte { return nil }

// Execute implements backend.Executor. The service learns of it over the link of this process, and the
// session's process, if it lives, as with Revoke.
func (c *Client) Execute(ctx context.Context, w backend.Will) error {
	if len(w.Secret) > 0 {
		return errors.New("the will has a secret, which none of this service has")
	}
	s := c.svc
	s.step(Step{Client: c.name, Session: w.Session, Kind: StepExecute})
	from := &session{svc: s, client: c} // it has the delays of a link
	if s.opts.Latency != nil {
		from.delays = new(delays)
	}
	for pause := (driver.Pause{}); ; {
		s.mu.Lock()
		var executed answer
		denied := c.denied
		switch {
		case c.down() || c.killed || denied:
		case c.throttled:
			c.turned++
		default:
			executed = from.send(0, func() (answered bool) {
				n := s.sessions[w.Session]
				if c.down() {
					return false
				}
				if n != nil {
					s.stats.Closes++
					n.revoke()
				}
				return true
			})
		}
		s.mu.Unlock()
		switch {
		case denied:
			return backend.ErrDenied
		case executed.comes(ctx, nil):
			return nil
		case !pause.Wait(ctx):
			return ctx.Err()
		}
	}
}

// Execute implements backend.Executor.
func (s *Service) Execute(ctx context.Context, w backend.Will) error { return s.self.Execute(ctx, w) }
