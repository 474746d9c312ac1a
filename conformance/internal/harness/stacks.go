package harness

import (
	"bytes"
	"fmt"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/elector-go/elector/conformance/kit"
)

// label is the key of the label that the goroutines of a rule bear, with the name of its test.
const label = "conformance-rule"

// notOfRules tells by a part of its stack what else runs in a goroutine with the label of a rule:
// the test's own, the proxies of servers, a log that is stuck, and what reads the stacks.
var notOfRules = []string{
	"testing.tRunner", "harness.readStacks", own + "servertest.", own + "process.", own + "proxytest.", "asynclogtest.",
}

// own is where this module has what its own tests run.
const own = "github.com/elector-go/elector/internal/"

// goroutines returns the stack of each goroutine that was started for a rule, without the
// test's own and those of the servers and their proxies.
func goroutines(rule string, s *kit.Service) []string {
	read := shared.read
	if s.Virtual {
		read = readStacks // nothing outside of its bubble may be waited for
	}
	mark := fmt.Sprintf("%q:%q", label, rule)
	var left []string
	for _, stack := range strings.Split(read(), "\n\n") {
		if !strings.Contains(stack, mark) {
			continue
		}
		if slices.ContainsFunc(notOfRules, func(s string) bool { return strings.Contains(stack, s) }) {
			continue
		}
		var alike int // those with the same stack are told once, with their number before it
		_, _ = fmt.Sscan(stack, &alike)
		left = append(left, slices.Repeat([]string{stack}, alike)...)
	}
	return left
}

// readStacks returns the stacks of all goroutines of the program, with their labels.
func readStacks() string {
	var all bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&all, 1); err != nil {
		return "" // a bytes.Buffer does not fail
	}
	// The first line is a heading, and would hide the number of those below it.
	_, stacks, _ := strings.Cut(all.String(), "\n")
	return stacks
}

// shared reads the stacks for many rules at a time. A reading takes tens of milliseconds where
// dozens of rules are tried side by side: one for each rule took a third of all processor time.
var shared stackReader

// stackPause is between two readings.
const stackPause = 500 * time.Millisecond

type stackReader struct {
	mu   sync.Mutex
	next *reading // that has not begun
	last time.Time
}

type reading struct {
	done   chan struct{}
	stacks string
}

// read returns stacks that were read after it was called.
func (s *stackReader) read() string {
	s.mu.Lock()
	if s.next == nil {
		next := &reading{done: make(chan struct{})}
		s.next = next
		time.AfterFunc(stackPause-time.Since(s.last), func() {
			s.mu.Lock()
			s.next, s.last = nil, time.Now()
			s.mu.Unlock()
			next.stacks = readStacks()
			close(next.done)
		})
	}
	r := s.next
	s.mu.Unlock()
	<-r.done
	return r.stacks
}
