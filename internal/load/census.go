package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/elector-go/elector/internal/program"
)

// A census counts the things that can leak, in this process and in the service.
type census map[string]int

func (c census) String() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(c)) {
		all = append(all, count(c[name])+" "+name)
	}
	return strings.Join(all, ", ")
}

func take(w world) (census, error) {
	all, err := w.figures()
	if err == nil {
		all["goroutines"] = runtime.NumGoroutine()
	}
	return all, err
}

// start takes a census once all is still: things that are about to end must not hide leaks later.
func start(ctx context.Context, w world) (census, error) {
	const still = 10
	var last census
	for same := 0; same < still; {
		now, err := take(w)
		if err != nil {
			return nil, err
		}
		if same++; !maps.Equal(now, last) {
			last, same = now, 0
		}
		if err := program.Sleep(ctx, poll); err != nil {
			return nil, err
		}
	}
	return last, nil
}

// more describes what there is more or less of than before.
func (c census) more(before census) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if n := before[name]; c[name] != n {
			all = append(all, fmt.Sprintf("%s %s, not %s", count(c[name]), name, count(n)))
		}
	}
	return strings.Join(all, "; ")
}

const (
	// grace is how long servers and runtimes may take to release things.
	grace = 15 * time.Second
	poll  = 20 * time.Millisecond
)

// settled waits until everything is as before. The error after the grace describes what is not.
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

// stacks returns the most frequent goroutine stacks.
func stacks() string {
	var all bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&all, 1); err != nil {
		return err.Error()
	}
	return all.String()[:min(all.Len(), 4<<10)]
}
