package etcd

import (
	"context"
	"time"
)

// patience is how long a member may take at first for an answer, before the request
// goes to the next: a member may be frozen, and its link look well.
func (s *session) patience() time.Duration { return s.TTL() / 4 }

// longer is the patience for the next try, which may only be slow.
func (s *session) longer(patience time.Duration) time.Duration {
	return min(2*patience, max(s.TTL()/2, time.Second))
}

// try makes a request that does no harm if it is made several times, again and again
// while the servers cannot be reached. When one is not answered in time, the next ones are made
// twice: the client gives its members turns, so that they go to different ones.
func try[T any](ctx context.Context, s *session, request func(context.Context) (T, error)) (T, error) {
	bound, cancel := s.Bind(ctx)
	defer cancel()
	times := 1
	var refused bout
	for p, patience := newPause(), s.patience(); ; patience = s.longer(patience) {
		var none T
		if err := s.Over(ctx); err != nil {
			return none, err
		}
		asking, cancel := context.WithTimeout(bound, patience)
		v, err := several(asking, times, request)
		late := asking.Err() != nil
		cancel()
		switch {
		case err == nil && s.Ctx.Err() == nil: // else it may show what Close has done
			return v, nil
		case s.Over(ctx) != nil:
			return none, s.Over(ctx)
		case !passing(err) || refused.over(s, err):
			return none, answerError(err)
		case late:
			times = 2
		}
		s.poke()
		p.wait(bound)
	}
}

// several makes a request several times at once, and returns the first answer.
func several[T any](ctx context.Context, times int, request func(context.Context) (T, error)) (T, error) {
	if times == 1 {
		return request(ctx)
	}
	type answer struct {
		v   T
		err error
	}
	ctx, cancel := context.WithCancel(ctx)
	answers := make(chan answer, times)
	for range times {
		go func() {
			v, err := request(ctx)
			answers <- answer{v, err}
		}()
	}
	var best answer
	for i := range times {
		a := <-answers
		if i == 0 || best.err != nil && passing(best.err) {
			best = a
		}
		if best.err == nil {
			cancel() // the others end at once, and are waited for
		}
	}
	cancel()
	return best.v, best.err
}

// hedged makes a request, and one more after each interval without an answer, three in all: the
// client gives its members turns. It returns the first answer that decides, and else the last.
func hedged[T any](ctx context.Context, interval time.Duration, request func(context.Context) (T, error)) (T, error) {
	const most = 3
	type answer struct {
		v   T
		err error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan answer, most)
	ask := func() {
		v, err := request(ctx)
		answers <- answer{v, err}
	}
	go ask()
	next := time.NewTicker(interval)
	defer next.Stop()
	var last answer
	decided := false
	for asked, answered := 1, 0; answered < asked; {
		select {
		case a := <-answers:
			answered++
			if !decided {
				last = a
			}
			if decided = decided || a.err == nil || !passing(a.err); decided {
				cancel() // the others end at once, and are waited for
			}
		case <-next.C:
			if asked < most && !decided && ctx.Err() == nil {
				asked++
				go ask()
			}
		}
	}
	return last.v, last.err
}
