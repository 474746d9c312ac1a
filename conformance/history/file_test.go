package history

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// written writes a file as a Recorder of another process would.
func written(t *testing.T, clock Clock, process string, events ...Event) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), process)
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	r := NewWriter(f, clock, process)
	for _, e := range events {
		r.Add(e)
	}
	require.NoError(t, r.Err())
	return path
}

func TestMerge(t *testing.T) {
	clock := Logical()
	one := written(t, clock, "p1",
		Event{Kind: Campaign, Candidate: "a", Token: 1, Call: 1, Return: 4, Outcome: OK},
		Event{Kind: Valid, Candidate: "a", Term: 1, Token: 1, Call: 50, Return: 51, Outcome: OK})
	two := written(t, clock, "p2",
		Event{Kind: Campaign, Candidate: "a", Call: 2, Outcome: Unknown},
		Event{ID: 1, Kind: Campaign, Candidate: "a", Token: 2, Call: 2, Return: 20, Outcome: OK},
		Event{Kind: Valid, Candidate: "a", Term: 1, Token: 2, Call: 60, Return: 61, Outcome: OK})
	h, err := Merge(one, two)
	require.NoError(t, err)
	if len(h.Events) != 4 || h.Until != 61 || h.Torn != nil {
		t.Errorf("merged: %+v", h)
	}
	// Each alone is sound. Together they overlap, and each reading belongs to its own process.
	for _, path := range []string{one, two} {
		alone, err := Load(path)
		require.NoError(t, err)
		if v := alone.Check(Options{}); v != nil {
			t.Errorf("%s: %v", path, v)
		}
	}
	v := h.Check(Options{})
	if want := "a of p1's term 1 and a of p2's term 2 were valid at the same instant, from 20 to 50"; len(v) != 1 || v[0].Text != want {
		t.Errorf("found %v, want %s", v, want)
	}
}

func TestMergeRefusesOtherClocks(t *testing.T) {
	e := Event{Kind: Note, Call: 1, Return: 1}
	_, err := Merge(written(t, Logical(), "p1", e), written(t, Logical(), "p2", e))
	if err == nil || !strings.Contains(err.Error(), "clocks differ") {
		t.Errorf("merged two clocks: %v", err)
	}
	if _, err := Merge(); err == nil {
		t.Error("merged no files")
	}
}

// A file that is cut off anywhere, as when its process is killed, loads up to its last whole line.
func TestTorn(t *testing.T) {
	clock := Logical()
	whole := written(t, clock, "p2",
		Event{Kind: Campaign, Candidate: "a", Call: 2, Outcome: Unknown},
		Event{Kind: Note, Call: 3, Return: 3, Text: "hello"})
	text, err := os.ReadFile(whole)
	require.NoError(t, err)
	other := written(t, clock, "p1", Event{Kind: Note, Call: 1, Return: 1})
	for n := range text {
		path := filepath.Join(t.TempDir(), "torn")
		require.NoError(t, os.WriteFile(path, text[:n], 0o600))
		h, err := Merge(path, other)
		if err != nil {
			t.Fatalf("cut off after %q: %v", text[:n], err)
		}
		lines := bytes.Count(text[:n], []byte("\n"))
		line := text[bytes.LastIndexByte(text[:n], '\n')+1 : n]
		said := slices.Equal(h.Torn, []string{path})
		if cut := len(line) > 0 && text[n] != '\n' || n == 0; cut != said {
			t.Errorf("cut off after %q: torn %q", text[:n], h.Torn)
		}
		whole := max(lines-1, 0)
		if len(line) > 0 && text[n] == '\n' && lines > 0 {
			whole++ // only the end of the line is lost
		}
		if len(h.Events) != whole+1 {
			t.Errorf("cut off after %q: %d events, want %d", text[:n], len(h.Events), whole+1)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	const head = `{"history":1,"clock":"logical","origin":"x"}` + "\n"
	for _, c := range []struct{ text, says string }{
		{"hello\n", "header"},
		{"hello", "header"},
		{`{"history":2}` + "\n", "format 1"},
		{head + "hello\n" + `{"id":1,"kind":"note","call":1}`, "line 2"},
		{head + `{"kind":"note","call":1}` + "\n", "id"},
		{head + `{"id":1,"call":1}` + "\n", "kind"},
		{head + `{"id":1,"kind":"note","call":5,"return":4}` + "\n", "line 2: an event that returned at 4 and was called at 5"},
	} {
		_, err := read(strings.NewReader(c.text), "file")
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: error %v does not say %q", c.text, err, c.says)
		}
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none")); !os.IsNotExist(err) {
		t.Errorf("a file that does not exist: %v", err)
	}
}

// A Writer that fails reports it, and recording continues.
func TestWriterFails(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	r := NewWriter(f, Logical(), "p")
	require.NoError(t, f.Close())
	r.Note("lost")
	if err := r.Err(); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("Err: %v", err)
	}
}

// A reading that is not worth a line of its own is written when the term is over.
func TestReadingsInFiles(t *testing.T) {
	var out bytes.Buffer
	clock, err := Machine()
	require.NoError(t, err)
	r := NewWriter(&out, clock, "p")
	r.LookEvery(time.Hour)
	f := newFake(1)
	f.enter(r, "a")
	for range 100 {
		f.w.look()
	}
	last := r.Now()
	f.w.look()
	f.over()
	f.w.look()
	f.w.look()
	if n := bytes.Count(out.Bytes(), []byte("\n")); n > 3+2*3 {
		t.Errorf("%d lines for 103 looks", n)
	}
	h, err := read(&out, "out")
	require.NoError(t, err)
	terms := h.elections()[0].terms
	if len(terms) != 1 || terms[0].Held == nil || terms[0].Ended == nil {
		t.Fatalf("terms: %+v", terms)
	}
	if held, ended := terms[0].Held, terms[0].Ended; held.Call < last || ended.Call < held.Return {
		t.Errorf("last held: %v, after %d; ended: %v", held, last, ended)
	}
}

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"":                               "",
		"one":                            "one",
		"one\ntwo\nthree":                "three",
		"one\ntwo\nthree\n":              "three",
		"\xff\xfe":                       "?… 2 bytes",
		strings.Repeat("x", 1000):        strings.Repeat("x", 200) + "… 1000 bytes",
		strings.Repeat("y\n", 200) + "z": "z",
	} {
		if got := Text([]byte(in)); got != want {
			t.Errorf("Text of %.20q is %q, want %q", in, got, want)
		}
	}
	if got := Lines([]byte("one\ntwo\n")); !slices.Equal(got, []string{"one", "two"}) || Lines(nil) != nil {
		t.Errorf("Lines: %q", got)
	}
}

// FuzzLoad checks that any file is either refused, or read to a history that can be checked, and saved
// and loaded again unchanged.
func FuzzLoad(f *testing.F) {
	var all bytes.Buffer
	for _, c := range cases {
		m := newMade(100)
		c.make(m)
		all.Reset()
		if _, err := m.history().WriteTo(&all); err != nil {
			f.Fatal(err)
		}
		f.Add(bytes.Clone(all.Bytes()))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		h, err := read(bytes.NewReader(text), "file")
		if err != nil {
			return
		}
		h.Check(Options{Ordered: true, Dense: true, Contexts: true, Bound: 10})
		claims, _ := h.seats(h.end())
		h.keys(claims, h.end())
		var out bytes.Buffer
		if _, err := h.WriteTo(&out); err != nil {
			t.Fatal(err)
		}
		again, err := read(&out, "again")
		if err != nil && h.Clock != "" {
			t.Fatalf("saved and not loaded again: %v", err)
		}
		if err == nil && !reflect.DeepEqual(h, again) {
			t.Errorf("loaded %+v, and again %+v", h, again)
		}
	})
}
