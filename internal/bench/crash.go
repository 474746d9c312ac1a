package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/elector-go/elector/internal/crowd"
	"github.com/elector-go/elector/internal/services"
	"github.com/elector-go/elector/strategy/fair"
)

// maxBehind is how long the next leader may need after the service has removed the dead leader's entry.
const maxBehind = 200 * time.Millisecond

// A crash is delays from the cut of the connections.
type crash struct {
	raw      time.Duration // deletion event of the leader's entry at a bare client
	takeover time.Duration // the next Campaign has returned
	stopped  time.Duration // the old leader's context has ended
}

func crashPart(ctx context.Context, l *lab) (section, error) {
	result := section{Title: l.facts.title + ": crash of the leader, fair"}
	for i, kind := range l.facts.crashes {
		t, err := l.crashesOf(ctx, kind, fmt.Sprintf("/bench/crash-%d", i))
		if err != nil {
			return result, fmt.Errorf("%s: %w", kind.name, err)
		}
		result.Tables = append(result.Tables, t)
	}
	result.Tables[0].About = fmt.Sprintf("The leader's sockets are cut, and cannot be opened again. %s Delays from the cut: until the deletion event of the leader's entry at a bare client (raw expiry), and until the next candidate's Campaign has returned. Differences are taken crash by crash.", l.facts.expiry)
	return result, nil
}

func (l *lab) crashesOf(ctx context.Context, kind crashKind, path string) (table, error) {
	t := table{Head: []string{kind.name, "crashes", "median", "min", "max"}}
	var crashes []crash
	var cleanups sync.WaitGroup
	defer cleanups.Wait()
	for i := range l.cfg.crashSamples {
		l.say("crash: %s: %d of %d", kind.name, i+1, l.cfg.crashSamples)
		c, err := l.crashOnce(ctx, kind, fmt.Sprintf("%s-%d", path, i), &cleanups)
		if err != nil {
			return t, err
		}
		crashes = append(crashes, c)
	}
	row := func(name string, of func(crash) time.Duration) (least, most time.Duration) {
		var all []time.Duration
		for _, c := range crashes {
			all = append(all, of(c))
		}
		least, most = slices.Min(all), slices.Max(all)
		t.add(name, len(all), crowd.QuantilesOf(all).P50, least, most)
		return least, most
	}
	row("raw expiry", func(c crash) time.Duration { return c.raw })
	row("next Campaign returned", func(c crash) time.Duration { return c.takeover })
	_, behind := row("behind raw expiry", func(c crash) time.Duration { return c.takeover - c.raw })
	ahead, _ := row("old term's Context done before", func(c crash) time.Duration { return c.takeover - c.stopped })
	if !l.cfg.quick {
		t.note("Target: no more than %v behind raw expiry. %s: %s at most.", maxBehind, verdict(behind <= maxBehind), ms(behind))
		t.note("The old leader must have stopped first. %s: by %s at least.", verdict(ahead > 0), ms(ahead))
	}
	return t, nil
}

// crashOnce cuts off a leader. A client that was cut off takes long to close: that continues in cleanups.
func (l *lab) crashOnce(ctx context.Context, kind crashKind, path string, cleanups *sync.WaitGroup) (c crash, err error) {
	var clients []services.Client // of the leader and of the next one
	f, err := newField(ctx, 2, fair.Strategy{}, path, func() (seat, error) {
		at, err := l.brief(kind)
		clients = append(clients, at)
		return seat{at.Backend, func() { _ = at.Close() }}, err
	})
	if err != nil {
		return c, err
	}
	watcher, err := l.service.connect(ctx)
	if err != nil {
		return c, errors.Join(err, f.close())
	}
	defer cleanups.Go(func() {
		clients[0].Mend()
		_ = f.close() // cannot confirm the close of a session that is gone
		watcher.close()
	})
	if _, err := f.enrol(1); err != nil {
		return c, err
	}
	old := f.Leader
	fired, err := watcher.watch(ctx, old.Term.Guard().Conditions[0].Entry.Key)
	if err != nil {
		return c, err
	}
	if err := f.idle(100 * time.Millisecond); err != nil {
		return c, err
	}
	stopped := make(chan time.Time, 1)
	context.AfterFunc(old.Term.Context(), func() { stopped <- time.Now() })

	// If the server counts from the last packet it got, a read right before the cut makes that the same
	// instant.
	if _, err := old.Leader(ctx); err != nil {
		return c, err
	}
	cut := time.Now()
	clients[0].Cut()

	expired, err := await(ctx, fired)
	if err != nil {
		return c, err
	}
	if err := f.Succession(patience); err != nil {
		return c, err
	}
	select {
	case at := <-stopped:
		return crash{expired.Sub(cut), f.Leader.At.Sub(cut), at.Sub(cut)}, nil
	case <-time.After(patience):
		return c, errors.New("the cut-off leader's term has not ended")
	}
}

// brief returns a client whose sessions are of this kind.
func (l *lab) brief(kind crashKind) (services.Client, error) {
	at := services.Remote{URL: l.kind.Scheme + "://" + l.service.addr() + kind.parameters}
	return at.Client()
}
