package etcd

import (
	"context"
	"time"

	"github.com/elector-go/elector/backend/driver"
)

// patience is how long a member may take to answer at first, before the request goes to the next one: a
// member may be frozen while its link looks well.
func (s *session) patience() time.Duration { return s.TTL() / 4 }

// longer returns the patience for the next try, as the servers may only be slow.
func (s *session) longer(patience time.Duration) time.Duration {
	return min(2*patience, max(s.TTL()/2, time.Second))
}

// try makes a request that may safely be made several times, and repeats it while the servers cannot be
// reached. When a request is not answered in time, each of the following tries sends two.
func try[T any](ctx context.Context, s *session, request func(context.Context) (T, error)) (T, error) {
	bound, cancel := s.Bind(ctx)
	defer cancel()
	times := 1
	var none T
	var refused driver.Bout
	var pause driver.Pause
	for patience := s.patience(); ; patience = s.longer(patience) {
		if err := s.Over(ctx); err != nil {
			return none, err
		}
		asking, cancel := context.WithTimeout(bound, patience)
		v, err := ask(asking, times, 0, request)
		late := asking.Err() != nil
		cancel()
		switch {
		case err == nil && s.Ctx.Err() == nil: // else it may show what Close has done
			return v, nil
		case s.Over(ctx) != nil:
			return none, s.Over(ctx)
		case !passing(err) || s.givesUp(&refused, err):
			return none, answerError(err)
		case late:
			times = 2
		}
		s.BeatSoon()
		pause.Wait(bound)
	}
}

// ask sends a request the given number of times at once and, unless interval is zero, once more after
// each interval without a decisive reply, three in all. The client uses its members in turn, so the
// requests go to different ones: one may be frozen while its link looks well. ask returns the first
// decisive reply, or else the last one.
func ask[T any](ctx context.Context, times int, interval time.Duration, request func(context.Context) (T, error)) (T, error) {
	most, more := times, (<-chan time.Time)(nil)
	switch {
	case interval > 0:
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		most, more = 3, ticker.C
	case times == 1:
		return request(ctx)
	}
	type answer struct {
		v   T
		err error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan answer, most)
	send := func() {
		v, err := request(ctx)
		answers <- answer{v, err}
	}
	for range times {
		go send()
	}
	var last answer
	decided := false
	for asked, answered := times, 0; answered < asked; {
		select {
		case a := <-answers:
			answered++
			if !decided {
				last = a
			}
			if decided = decided || a.err == nil || !passing(a.err); decided {
				cancel() // the others end at once, and the loop waits for them
			}
		case <-more:
			if asked < most && !decided && ctx.Err() == nil {
				asked++
				go send()
			}
		}
	}
	return last.v, last.err
}
