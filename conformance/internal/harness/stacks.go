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

// label is the key of the label that a rule's goroutines carry. Its value is the test's name.
const label = "conformance-rule"

// notOfRules holds parts of the stacks of other goroutines that carry a rule's label: the test's own, the
// proxies of servers, a log that is stuck, and the reader of the stacks.
var notOfRules = []string{
	"testing.tRunner", "harness.readStacks", own + "servertest.", own + "process.", own + "proxytest.", "asynclogtest.",
}

// own is the import path of the packages that this module's own tests run.
const own = "github.com/elector-go/elector/internal/"

// goroutines returns the stack of each goroutine that was started for a rule, without the test's own and
// those of the servers and their proxies.
func goroutines(rule string, s *kit.Service) []string {
	read := shared.read
	if s.Virtual {
		read = readStacks // a bubble must not wait for anything outside of it
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
		var alike int // equal stacks are printed once, after their number
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
	// The first line is a heading, and would hide the number in the line below it.
	_, stacks, _ := strings.Cut(all.String(), "\n")
	return stacks
}

// shared reads the stacks for many rules at a time. A reading takes tens of milliseconds when dozens of
// rules run in parallel: one reading per rule took a third of all processor time.
var shared stackReader

// stackPause is the pause between two readings.
const stackPause = 500 * time.Millisecond

type stackReader struct {
	mu   sync.Mutex
	next *reading // has not begun
	last time.Time
}

type reading struct {
	done   chan struct{}
	stacks string
}

// read returns stacks that were read after the call.
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
