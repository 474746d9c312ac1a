package main

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/elector-go/elector/internal/program"
)

// A figure is the number of something that can leak.
type figure struct {
	name string
	n    int
}

// A census is what there is, in this process and in the service.
type census []figure

func (c census) String() string {
	var all []string
	for _, f := range c {
		all = append(all, fmt.Sprintf("%s %s", count(f.n), f.name))
	}
	return strings.Join(all, ", ")
}

func take(w world) (census, error) {
	theirs, err := w.figures()
	return append(census{{"goroutines", runtime.NumGoroutine()}}, theirs...), err
}

// start takes a census once all is still: what is about to end anyway must not hide later
// what does not.
func start(ctx context.Context, w world) (census, error) {
	const still = 10
	var last census
	for same := 0; same < still; {
		now, err := take(w)
		if err != nil {
			return nil, err
		}
		if same++; !slices.Equal(now, last) {
			last, same = now, 0
		}
		if err := program.Sleep(ctx, poll); err != nil {
			return nil, err
		}
	}
	return last, nil
}

// more tells what there is more of, or less, than before.
func (c census) more(before census) string {
	var all []string
	for i, f := range c {
		if f.n != before[i].n {
			all = append(all, fmt.Sprintf("%s %s, not %s", count(f.n), f.name, count(before[i].n)))
		}
	}
	return strings.Join(all, "; ")
}

const (
	// grace is how long servers and runtimes may take to get rid of things.
	grace = 15 * time.Second
	poll  = 20 * time.Millisecond
)

// settled waits until everything is as it was, and says what is not after that time.
func settled(ctx context.Context, w world, before census, grace time.Duration) error {
	for end := time.Now().Add(grace); ; {
		now, err := take(w)
		if err != nil {
			return err
		}
		left := now.more(before)
		if left == "" {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("after %v there are still %s\n%s", grace, left, stacks())
		}
		if err := program.Sleep(ctx, poll); err != nil {
			return err
		}
	}
}

// stacks returns what most goroutines are at.
func stacks() string {
	var all bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&all, 1); err != nil {
		return err.Error()
	}
	return all.String()[:min(all.Len(), 4<<10)]
}
