package wait

import (
	"bytes"
	"runtime"
	"slices"
	"testing"
)

// Parked makes calls, each on its own goroutine and all at once, and returns when each of them waits for an
// event, or has returned: all have got as far as they can. The channels receive their results.
func Parked[T any](t testing.TB, calls ...func() (T, error)) (all []<-chan Result[T]) {
	t.Helper()
	names, begin := make(chan []byte, len(calls)), make(chan struct{})
	for _, call := range calls {
		all = append(all, Later(func() (T, error) {
			head := make([]byte, 64)
			head = head[:runtime.Stack(head, false)] // "goroutine 7 [running]:"
			names <- head[:bytes.IndexByte(head, '[')+1]
			<-begin
			return call()
		}))
	}
	var started [][]byte
	for range calls {
		started = append(started, Receive(t, "a call begins", names))
	}
	close(begin)
	stacks := make([]byte, 1<<20)
	For(t, "all calls wait", func() bool {
		n := runtime.Stack(stacks, true)
		for ; n == len(stacks); n = runtime.Stack(stacks, true) {
			stacks = make([]byte, 2*n)
		}
		return !slices.ContainsFunc(started, func(name []byte) bool {
			_, state, there := bytes.Cut(stacks[:n], name)
			return there && !bytes.HasPrefix(state, []byte("select")) && !bytes.HasPrefix(state, []byte("chan "))
		})
	})
	return all
}
