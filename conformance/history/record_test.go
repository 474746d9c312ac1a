package history_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/conformance/history"
	"github.com/elector-go/elector/strategy/fair"
)

// play makes three candidates lead one after the other, and write. It records each with the Recorder for
// its ID.
func play(t *testing.T, recorder func(id string) *history.Recorder) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	store := memory.New(memory.Options{})
	var version uint64
	var log []byte
	var last *elector.Term
	for _, id := range []string{"a", "b", "c"} {
		rec := recorder(id).In("/jobs")
		e, err := elector.New(elector.Config{
			Backend: store, Strategy: fair.Strategy{}, Election: "/jobs", ID: id, Hooks: rec.Hooks(id, elector.Hooks{}),
		})
		require.NoError(t, err)
		e = history.Record(e, rec, id)
		term, err := e.Campaign(ctx)
		require.NoError(t, err)
		if !term.Valid() {
			t.Error("a new term is not valid")
		}
		for _, line := range []string{id + " 1\n", id + " 2\n"} {
			log = append(log, line...)
			op := elector.CompareAndSet("/log", log, version)
			if version == 0 {
				op = elector.Create("/log", log)
			}
			made, err := term.Commit(ctx, op)
			require.NoError(t, err)
			version = made[0].Version
		}
		if last != nil {
			if _, err := last.Commit(ctx, elector.Put("/log", []byte("late"))); !errors.Is(err, elector.ErrDeposed) {
				t.Errorf("Commit of an old term: %v", err)
			}
		}
		require.NoError(t, errors.Join(term.Proclaim(ctx, []byte("hello")), term.Resign(ctx), e.Close(ctx)))
		last = term
	}
	rec := recorder("a")
	read := rec.Start(history.Event{Kind: history.Ledger, Key: "/log", Values: history.Lines(log)})
	rec.Finish(read, nil)
}

// sound checks what play has recorded.
func sound(t *testing.T, h *history.History) {
	t.Helper()
	for _, v := range h.Check(history.Options{Ordered: true, Contexts: true, Bound: time.Second}) {
		t.Error(v)
	}
	var names, wrote []string
	for _, e := range h.Terms() {
		names = append(names, e.Candidate)
	}
	count := map[history.Kind]int{}
	for _, e := range h.Events {
		count[e.Kind]++
		if e.Kind == history.Commit && e.Outcome == history.OK {
			wrote = append(wrote, e.Writes[0].Value)
		}
	}
	if want := []string{"a", "b", "c"}; !slices.Equal(names, want) {
		t.Errorf("led: %q, want %q", names, want)
	}
	if want := []string{"a 1", "a 2", "b 1", "b 2", "c 1", "c 2"}; !slices.Equal(wrote, want) {
		t.Errorf("wrote: %q, want %q", wrote, want)
	}
	for kind, n := range map[history.Kind]int{
		history.Campaign: 3, history.Enter: 3, history.Commit: 8, history.Proclaim: 3, history.Resign: 3, history.Close: 3, history.Ledger: 1,
	} {
		if count[kind] != n {
			t.Errorf("%d events of kind %s, want %d", count[kind], kind, n)
		}
	}
	if count[history.Valid] < 3 || count[history.Context] < 3 {
		t.Errorf("too few readings: %v", count)
	}
}

func TestRecord(t *testing.T) {
	rec := history.NewRecorder(history.Logical(), "")
	play(t, func(string) *history.Recorder { return rec })
	h := rec.History()
	sound(t, h)

	path := filepath.Join(t.TempDir(), "history")
	require.NoError(t, h.Save(path))
	loaded, err := history.Load(path)
	require.NoError(t, err)
	sound(t, loaded)
	if loaded.Until != h.Until || loaded.Clock != h.Clock || loaded.Origin != h.Origin || len(loaded.Events) != len(h.Events) {
		t.Errorf("loaded %+v, saved %+v", loaded, h)
	}
}

// Each candidate can be recorded to a file of its own, as if it were another process.
func TestRecordToFiles(t *testing.T) {
	clock, err := history.Machine()
	require.NoError(t, err)
	dir := t.TempDir()
	recorders := map[string]*history.Recorder{}
	var paths []string
	play(t, func(id string) *history.Recorder {
		if recorders[id] == nil {
			paths = append(paths, filepath.Join(dir, id))
			f, err := os.Create(paths[len(paths)-1])
			require.NoError(t, err)
			t.Cleanup(func() { _ = f.Close() })
			recorders[id] = history.NewWriter(f, clock, "process "+id)
		}
		return recorders[id]
	})
	for _, r := range recorders {
		assert.NoError(t, r.Err())
	}
	h, err := history.Merge(paths...)
	require.NoError(t, err)
	sound(t, h)
}
