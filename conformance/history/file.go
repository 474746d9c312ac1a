package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// A History is what was recorded. Its Events are in the order of their calls.
type History struct {
	Clock  ClockName
	Origin string
	Events []Event
	// Until is when the recording ended.
	Until int64
	// Promised is what a saved history was checked for, so that it can be checked again.
	Promised Options
	// Torn names the files whose last line was cut off, as when a process is killed while it writes. That
	// line is left out.
	Torn []string
}

// format is the format of the files: a header, and then a line per event.
const format = 1

type header struct {
	Format   int       `json:"history"`
	Clock    ClockName `json:"clock"`
	Origin   string    `json:"origin"`
	Process  string    `json:"process,omitempty"`
	Until    int64     `json:"until,omitempty"`
	Promised Options   `json:"promised,omitzero"`
	Torn     []string  `json:"torn,omitempty"`
}

// write writes a line. The caller holds the lock, or is the only user of the Recorder.
func (l *log) write(v any) {
	if err := json.NewEncoder(l.out).Encode(v); err != nil && l.err == nil {
		l.err = fmt.Errorf("history: write: %w", err)
	}
}

// WriteTo writes the history in the format that Load reads.
func (h *History) WriteTo(w io.Writer) (int64, error) {
	var all bytes.Buffer
	l := log{out: &all}
	l.write(header{Format: format, Clock: h.Clock, Origin: h.Origin, Until: h.Until, Promised: h.Promised, Torn: h.Torn})
	for _, e := range h.Events {
		l.write(e)
	}
	if l.err != nil {
		return 0, l.err
	}
	return all.WriteTo(w)
}

// Save writes the history to a file, which Load reads.
func (h *History) Save(path string) error {
	var all bytes.Buffer
	if _, err := h.WriteTo(&all); err != nil {
		return err
	}
	return os.WriteFile(path, all.Bytes(), 0o644)
}

// Load reads a history from a file written by Save, or by a Recorder of NewWriter.
func Load(path string) (*History, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return read(f, path)
}

// read reads a history. Errors and Torn use name for it.
func read(r io.Reader, name string) (*History, error) {
	in := json.NewDecoder(r)
	var head header
	err := in.Decode(&head)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &History{Torn: []string{name}}, nil
	}
	if err == nil && head.Format != format {
		err = fmt.Errorf("it has format %d", head.Format)
	}
	if err != nil {
		return nil, fmt.Errorf("history: %s: its first line is not the header of a history of format %d: %w", name, format, err)
	}
	h := &History{Clock: head.Clock, Origin: head.Origin, Until: head.Until, Promised: head.Promised, Torn: head.Torn}
	at := map[uint64]int{} // the index of the event with an ID
	for n := 2; ; n++ {
		var e Event
		err := in.Decode(&e)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			h.Torn = append(h.Torn, name)
			break
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("history: %s, line %d: %w", name, n, err)
		}
		if wrong := e.check(); wrong != "" {
			return nil, fmt.Errorf("history: %s, line %d: %s", name, n, wrong)
		}
		h.Until = max(h.Until, e.Call, e.Return)
		if i, again := at[e.ID]; again {
			h.Events[i] = e
			continue
		}
		at[e.ID] = len(h.Events)
		h.Events = append(h.Events, e)
	}
	byCall(h.Events)
	return h, nil
}

// check returns what is wrong with an event that was read, or "".
func (e *Event) check() string {
	switch {
	case e.ID == 0:
		return "an event without an id"
	case e.Kind == "":
		return "an event without a kind"
	case e.Call < 0 || e.Return != 0 && e.Return < e.Call:
		return fmt.Sprintf("an event that returned at %d and was called at %d", e.Return, e.Call)
	}
	return ""
}

// Merge reads files that were recorded with the same clock into one history.
func Merge(paths ...string) (*History, error) {
	var all *History
	for _, path := range paths {
		h, err := Load(path)
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = &History{}
		}
		if err := all.add(h); err != nil {
			return nil, fmt.Errorf("history: %s and %s: %w", paths[0], path, err)
		}
	}
	if all == nil {
		return nil, errors.New("history: no files to merge")
	}
	byCall(all.Events)
	return all, nil
}

// add adds the events of another history. All of them get new IDs.
func (h *History) add(o *History) error {
	switch {
	case o.Clock == "": // its process was killed before it had written anything
	case h.Clock == "":
		h.Clock, h.Origin, h.Promised = o.Clock, o.Origin, o.Promised
	case h.Clock != o.Clock || h.Origin != o.Origin:
		return fmt.Errorf("clocks differ: %s of %s, %s of %s: record both with Machine, on one machine", h.Clock, h.Origin, o.Clock, o.Origin)
	}
	var last uint64
	for _, e := range h.Events {
		last = max(last, e.ID)
	}
	// Their own IDs need not be dense: somebody may have edited the file.
	ids := make(map[uint64]uint64, len(o.Events))
	for i, e := range o.Events {
		ids[e.ID] = last + uint64(i) + 1
	}
	for _, e := range o.Events {
		e.ID, e.Term = ids[e.ID], ids[e.Term]
		h.Events = append(h.Events, e)
	}
	h.Until = max(h.Until, o.Until)
	h.Torn = slices.Concat(h.Torn, o.Torn)
	return nil
}
