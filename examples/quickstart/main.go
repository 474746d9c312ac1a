// Quickstart shows an election.
//
//	go run ./examples/quickstart
//
// needs only Go: three candidates in this process elect a leader on the memory backend, the leader crashes,
// and the next one takes over with a higher token.
//
//	go run ./examples/quickstart -backend zk://127.0.0.1:2181
//	go run ./examples/quickstart -backend etcd://127.0.0.1:2379
//	go run ./examples/quickstart -backend 'consul://127.0.0.1:8500?check=2s'
//
// is one candidate among processes on a real service: start it in three terminals, kill -9 the leader, and
// the next one leads at once.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/dial"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/lastwill"
	"github.com/elector-go/elector/strategy"
	"github.com/elector-go/elector/strategy/fair"
	"github.com/elector-go/elector/strategy/unfair"
)

func main() {
	url := flag.String("backend", "mem://", dial.Usage()+"; mem:// is a demonstration of three candidates in this process")
	election := flag.String("election", "/quickstart", "path of the election")
	id := flag.String("id", fmt.Sprintf("%s-%d", hostname(), os.Getpid()), "name of this candidate; not used with mem://")
	name := flag.String("strategy", "fair", "fair or unfair")
	flag.Parse()

	strategies := map[string]strategy.Strategy{"fair": fair.Strategy{}, "unfair": unfair.Strategy{}}
	strategy, ok := strategies[*name]
	if !ok {
		exit(fmt.Errorf("strategy %q is neither fair nor unfair", *name))
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if *url == "mem://" {
		exit(demo(ctx, newSayer(), *election, strategy))
	}
	exit(candidate(ctx, *url, *election, *id, strategy))
}

// candidate runs one candidate among processes, until the process is told to stop.
func candidate(ctx context.Context, url, election, id string, strategy strategy.Strategy) (err error) {
	say := newSayer()
	// If this process dies, its companion ends its session at once. The companion is this program, executed
	// again: it does not get past this call.
	b, err := lastwill.Start(func() (backend.Backend, error) { return dial.Open(ctx, url) }, lastwill.Options{
		Optional: true, // some systems have none
		OnEvent: func(e lastwill.Event) {
			if e.Kind == lastwill.Ready {
				say(id, "has a companion, process %d", e.PID)
			}
		},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	e, err := stand(say, b, election, id, strategy)
	if err != nil {
		return err
	}
	err = elector.Run(ctx, e, func(ctx context.Context, t *elector.Term) error {
		<-ctx.Done() // a real leader works here until ctx ends
		return ctx.Err()
	})
	closing, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if errors.Is(err, context.Canceled) {
		err = nil // told to stop
	}
	return errors.Join(err, e.Close(closing))
}

// demo runs three candidates, on a service in this process.
func demo(ctx context.Context, say sayer, election string, strategy strategy.Strategy) error {
	say("", "three candidates, one seat; session timeout 1s; strategy %s", strategy.Name())
	service := memory.New(memory.Options{DefaultTTL: time.Second})
	leads := make(chan *memory.Client) // the process that has just begun to lead

	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	for _, id := range []string{"anna", "ben", "cleo"} {
		process := service.Client(id)
		e, err := stand(say, process, election, id, strategy)
		if err != nil {
			return err
		}
		group.Go(func() {
			defer e.Close(context.Background())
			elector.Run(ctx, e, func(ctx context.Context, t *elector.Term) error {
				select {
				case leads <- process:
				case <-ctx.Done():
				}
				<-ctx.Done()
				return ctx.Err()
			})
		})
		time.Sleep(50 * time.Millisecond) // so that they come in this order
	}

	for range 2 {
		select {
		case process := <-leads:
			time.Sleep(500 * time.Millisecond)
			say(process.Name(), "CRASHES: its link goes dead without a word")
			process.Suspend()
		case <-ctx.Done():
			return nil
		}
	}
	select {
	case process := <-leads:
		time.Sleep(500 * time.Millisecond)
		say(process.Name(), "is the last one left. Bye.")
	case <-ctx.Done():
	}
	return nil
}

// stand returns a candidate that reports its events.
func stand(say sayer, b backend.Backend, election, id string, strategy strategy.Strategy) (elector.Elector, error) {
	return elector.New(elector.Config{
		Backend: b, Strategy: strategy, Election: election, ID: id,
		Hooks: elector.Hooks{
			Elected: func(t *elector.Term) { say(id, "LEADS, token %d", t.Token()) },
			Ended:   func(t *elector.Term, cause error) { say(id, "leads no more (token %d): %v", t.Token(), cause) },
			Session: func(_ string, state backend.State) {
				switch state {
				case backend.Suspended:
					say(id, "session is suspended")
				case backend.Lost: // timed out, or closed at the end
					say(id, "session is over")
				}
			},
			Retry: func(r elector.RetryEvent) {
				if r.Attempt == 1 {
					say(id, "tries again until it works: %v", r.Err)
				}
			},
			Stage: func(s elector.StageEvent) {
				if s.Stage == elector.StageReady && !s.Completed {
					say(id, "waits")
				}
			},
		},
	})
}

// sayer prints a line with the time since the start.
type sayer func(who, format string, args ...any)

func newSayer() sayer {
	start := time.Now()
	var mu sync.Mutex
	return func(who, format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf("%7.3fs  %-5s %s\n", time.Since(start).Seconds(), who, fmt.Sprintf(format, args...))
	}
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "candidate"
	}
	return name
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
	os.Exit(0)
}
