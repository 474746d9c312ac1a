package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/internal/must"
)

// Both stores make the same promise, so one set of tests checks both.

// A store is a fenced resource, opened by one process.
type store struct {
	claim func(token uint64) error
	put   func(token uint64, value string) error
	get   func() (string, error)
}

// stores are ways to open the resource in a directory.
var stores = []struct {
	name string
	open func(t *testing.T, dir string) store
	// shared: several processes have it open at the same time.
	shared bool
}{
	{name: "table by Update", open: openUpdate, shared: true},
	{name: "table by Put", open: openPut, shared: true},
	{name: "files", open: openFileStore},
}

func openPut(t *testing.T, dir string) store {
	table := openTable(t, dir)
	return store{
		claim: func(token uint64) error { return table.Claim(t.Context(), token, job) },
		put:   func(token uint64, value string) error { return table.Put(t.Context(), token, job, value) },
		get: func() (string, error) {
			value, _, err := table.Get(t.Context(), job)
			return value, err
		},
	}
}

func openUpdate(t *testing.T, dir string) store {
	s, table := openPut(t, dir), openTable(t, dir)
	s.put = func(token uint64, value string) error { return table.Update(t.Context(), token, job, value) }
	return s
}

func openFileStore(t *testing.T, dir string) store {
	files := openFiles(t, dir)
	return store{
		claim: files.Claim,
		put:   func(token uint64, value string) error { return files.Put(token, job, []byte(value)) },
		get: func() (string, error) {
			data, err := files.Get(job)
			return string(data), err
		},
	}
}

func openTable(t *testing.T, dir string) *Table {
	t.Helper()
	table := must.Get(OpenTable(t.Context(), filepath.Join(dir, "jobs.db")))(t)
	t.Cleanup(func() { require.NoError(t, table.Close()) })
	return table
}

func (s store) holds(t *testing.T, want string) {
	t.Helper()
	require.Equal(t, want, must.Get(s.get())(t))
}

// A step is an action with a token. put is a value, "" for a claim, or "restart" to open the store again.
type step struct {
	token uint64
	put   string
	want  error
}

const restart = "restart"

// After each list of steps the store holds the last value that was put and not refused.
func TestTokens(t *testing.T) {
	const highest = 1<<63 - 1
	for name, steps := range map[string][]step{
		"an old token is refused": {
			{7, "", nil}, {7, "first of 7", nil},
			{7, "second of 7", nil}, // a leader writes many times in a term
			{9, "first of 9", nil},
			{7, "late write of 7", errOldToken}, {8, "8, who was never here before", errOldToken}, {8, "", errOldToken},
			{9, "second of 9", nil},
		},
		// From its claim on a new leader may rely on what it reads.
		"a claim shuts out": {
			{3, "", nil}, {3, "three", nil}, {5, "", nil},
			{5, "", nil}, // its answer was lost, and it asks again
			{3, "late write of 3", errOldToken},
		},
		"a claim of nothing": {{5, "", nil}, {3, "late write of 3", errOldToken}},
		"a restart": {
			{7, "", nil}, {7, "seven", nil}, {0, restart, nil},
			{6, "six", errOldToken}, {6, "", errOldToken}, {7, "seven again", nil},
			{highest, "", nil}, {0, restart, nil},
			{highest - 1, "late", errOldToken}, // the largest tokens stay distinct
			{highest, "last", nil},
		},
		"no token": {{0, "", errNoToken}, {0, "forgotten", errNoToken}},
	} {
		for _, kind := range stores {
			t.Run(name+"/"+kind.name, func(t *testing.T) {
				dir := t.TempDir()
				s, last := kind.open(t, dir), ""
				for _, step := range steps {
					switch step.put {
					case restart:
						s = kind.open(t, dir)
					case "":
						require.ErrorIs(t, s.claim(step.token), step.want)
					default:
						require.ErrorIs(t, s.put(step.token, step.put), step.want, step.put)
						if step.want == nil {
							last = step.put
						}
					}
					if last != "" {
						s.holds(t, last)
					}
				}
			})
		}
	}
}

// Terms follow each other so fast that several leaders write at the same time. Reads never go back to an
// older term, nobody is accepted once refused, and the newest has the last word.
func TestConcurrentTerms(t *testing.T) {
	for _, s := range stores {
		t.Run(s.name, func(t *testing.T) {
			dir := t.TempDir()
			one := s.open(t, dir)
			concurrentTerms(t, one, func() store {
				if s.shared {
					return s.open(t, dir)
				}
				return one
			})
		})
	}
}

func concurrentTerms(t *testing.T, reader store, open func() store) {
	const processes, terms, writes = 8, 80, 2
	require.NoError(t, reader.claim(1))
	require.NoError(t, reader.put(1, "1 0"))
	var writing, reading sync.WaitGroup
	done := make(chan struct{})
	reading.Go(func() { neverGoesBack(t, reader, done) })
	var tokens atomic.Uint64
	for range processes {
		s := open()
		writing.Go(func() {
			for token := tokens.Add(1); token <= terms; token = tokens.Add(1) {
				leadTerm(t, s, token, writes, token == terms)
			}
		})
	}
	writing.Wait()
	close(done)
	reading.Wait()
	reader.holds(t, fmt.Sprint(terms, writes))
}

// leadTerm writes a few times with one token.
func leadTerm(t *testing.T, s store, token uint64, writes int, newest bool) {
	refused := false
	for n := 1; n <= writes; n++ {
		err := s.put(token, fmt.Sprint(token, n))
		switch {
		case err == nil && refused:
			t.Errorf("term %d was refused, and let in after that", token)
		case err == nil:
		case !errors.Is(err, errOldToken):
			t.Errorf("term %d was neither let in nor refused: %v", token, err)
		case newest:
			t.Errorf("the newest term was refused: %v", err)
		default:
			refused = true
		}
	}
}

// neverGoesBack reads until done, and compares each value with the last one.
func neverGoesBack(t *testing.T, s store, done <-chan struct{}) {
	var last, lastWrite int
	for {
		value, err := s.get()
		var token, write int
		if _, bad := fmt.Sscan(value, &token, &write); err != nil || bad != nil {
			t.Errorf("read %q: %v, %v", value, err, bad)
			return
		}
		assert.False(t, token < last || token == last && write < lastWrite, "went back from term %d, write %d to term %d, write %d", last, lastWrite, token, write)
		last, lastWrite = token, write
		select {
		case <-done:
			return
		default:
		}
	}
}
