package driver

import (
	"context"
	"time"

	"github.com/elector-go/elector/backend"
)

// beats are the session's heartbeats: see Life.BeatBy. Life.Mu guards them.
type beats struct {
	do    func() (next time.Duration)
	timer *time.Timer // of the next one
	doing bool        // one is pending
	due   bool        // the next one is wanted at once
}

// BeatBy sends the session's heartbeats by do, one after the other, until the session is over: the first
// after a time, the others after the time that do returns. Each call of do has a goroutine of its own, and
// between calls there is none.
func (l *Life) BeatBy(first time.Duration, do func() (next time.Duration)) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if l.beats.due {
		first = 0
	}
	if l.state != backend.Lost {
		l.beats = beats{do: do, timer: time.AfterFunc(first, l.beat)}
	}
}

// BeatSoon sends the next heartbeat at once, or as soon as a pending one is done.
func (l *Life) BeatSoon() {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	l.beats.due = true
	if l.state != backend.Lost && !l.beats.doing && l.beats.timer != nil {
		l.beats.timer.Reset(0)
	}
}

func (l *Life) beat() {
	l.Mu.Lock()
	if l.state == backend.Lost || l.beats.doing {
		l.Mu.Unlock()
		return
	}
	l.beats.doing, l.beats.due = true, false
	l.calls.Add(1)
	l.Mu.Unlock()
	defer l.Done()
	next := l.beats.do()
	l.Mu.Lock()
	defer l.Mu.Unlock()
	l.beats.doing = false
	if l.beats.due {
		next = 0
	}
	if l.state != backend.Lost {
		l.beats.timer.Reset(next)
	}
}

// Beat is BeatBy with pauses of apart, shorter while heartbeats fail. renew sends one, and returns nil when
// the service has acknowledged it; the window then counts from when it was sent. renew must heed ctx, which
// ends when the next heartbeat is due. A service that needs more than this, such as a proof that the server
// that answers may do so, has heartbeats of its own.
func (l *Life) Beat(apart time.Duration, renew func(ctx context.Context) error) {
	var pause Pause
	l.BeatBy(apart, func() time.Duration {
		sent := time.Now()
		ctx, cancel := context.WithTimeout(l.Ctx, apart)
		defer cancel()
		if err := renew(ctx); err != nil {
			l.Suspend(err)
			return min(pause.Next(), apart)
		}
		l.Extend(sent)
		l.Resume()
		pause = Pause{}
		return apart
	})
}
