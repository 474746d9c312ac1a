package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
)

// A position is where a record stands: the token of the term in which it was written, and its number in
// the log, from 1. Of two logs the one that ends at the higher position has all that was acknowledged.
type position struct {
	Token uint64 `json:"token"`
	Index int    `json:"index"`
}

func (p position) less(q position) bool {
	return p.Token < q.Token || p.Token == q.Token && p.Index < q.Index
}

func (p position) String() string { return fmt.Sprintf("%d of token %d", p.Index, p.Token) }

// A record is one line of the log.
type record struct {
	Token uint64 `json:"token"`
	Data  string `json:"data"`
}

// A journal is a node's log, in a file that is synced before anybody is told of a record, and the
// highest token that the node has promised to heed, in another. It is safe for concurrent use.
type journal struct {
	mu       sync.Mutex
	dir      string
	file     *os.File
	records  []record
	ends     []int64 // where each record's line ends in the file
	promised uint64
	changed  chan struct{} // closed at the next change
}

// errOld refuses what comes from a primary of the past.
var errOld = errors.New("a later primary has claimed this log")

// errGap refuses records whose predecessor is not there.
var errGap = errors.New("the log does not have the record before these")

// openJournal reads the log in a directory, which it makes. A last line that was not written to its end
// was never acknowledged: it is cut off.
func openJournal(dir string) (*journal, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	j := &journal{dir: dir, changed: make(chan struct{})}
	text, err := os.ReadFile(j.promise())
	if err == nil {
		err = json.Unmarshal(text, &j.promised)
	} else if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", j.promise(), err)
	}
	if j.file, err = os.OpenFile(filepath.Join(dir, "log"), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, err
	}
	if text, err = io.ReadAll(j.file); err != nil {
		return nil, err
	}
	for end := int64(0); ; {
		line, rest, whole := bytes.Cut(text, []byte("\n"))
		if !whole {
			return j, j.file.Truncate(end)
		}
		var r record
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("%s: record %d: %w", j.file.Name(), len(j.records)+1, err)
		}
		end += int64(len(line)) + 1
		j.records, j.ends, text = append(j.records, r), append(j.ends, end), rest
	}
}

func (j *journal) close() error { return j.file.Close() }

func (j *journal) promise() string { return filepath.Join(j.dir, "promised") }

// claim promises a primary that none with a lower token writes here any more, and returns where the log
// ends. It stays that way until this primary, or a later one, writes.
func (j *journal) claim(token uint64) (position, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last(), j.heed(token)
}

// heed does the fencing. The promise is on disk before anything is done in its name.
func (j *journal) heed(token uint64) error {
	if token < j.promised || token == 0 {
		return fmt.Errorf("%w: token %d comes after %d", errOld, token, j.promised)
	}
	if token == j.promised {
		return nil
	}
	next, err := os.Create(j.promise() + ".next")
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(next, token)
	if err = errors.Join(err, next.Sync(), next.Close()); err != nil {
		return err
	}
	if err := os.Rename(next.Name(), j.promise()); err != nil {
		return err
	}
	if err := syncDir(j.dir); err != nil {
		return err
	}
	j.promised = token
	j.announce()
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// write appends a record of the primary's own, and returns where it stands.
func (j *journal) write(token uint64, data string) (position, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.heed(token); err != nil {
		return position{}, err
	}
	if err := j.append([]record{{token, data}}); err != nil {
		return position{}, err
	}
	return j.last(), nil
}

// put makes the log hold these records after prev, as that of the primary with this token does. What is
// there already stays. What differs goes, with all that follows: it was never acknowledged. With
// errGap it returns where the primary should try next.
func (j *journal) put(token uint64, prev position, records []record) (position, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.heed(token); err != nil {
		return position{}, err
	}
	if prev.Index < 0 || prev.Index > len(j.records) {
		return j.last(), errGap
	}
	if at := j.at(prev.Index); at != prev {
		for at.Index > 0 && j.at(at.Index).Token == at.Token { // all of a term that the primary does not know as such
			at.Index--
		}
		return j.at(at.Index), errGap
	}
	for i, r := range records {
		n := prev.Index + i + 1
		if n <= len(j.records) && j.records[n-1].Token == r.Token {
			continue
		}
		j.records, j.ends = j.records[:n-1], j.ends[:n-1]
		if err := j.append(records[i:]); err != nil {
			return position{}, err
		}
		break
	}
	return j.at(prev.Index + len(records)), nil
}

// append writes records where the log ends, over what the file has beyond.
func (j *journal) append(records []record) error {
	end := j.end(len(j.records))
	var lines []byte
	var ends []int64
	for _, r := range records {
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		lines = append(append(lines, line...), '\n')
		ends = append(ends, end+int64(len(lines)))
	}
	if err := j.file.Truncate(end); err != nil {
		return err
	}
	if _, err := j.file.WriteAt(lines, end); err != nil {
		return err
	}
	if err := j.file.Sync(); err != nil {
		return err
	}
	j.records, j.ends = append(j.records, records...), append(j.ends, ends...)
	j.announce()
	return nil
}

// read returns the records after a number, as many as fit, and the position before them. changed is
// closed when there is more to know.
func (j *journal) read(after int) (prev position, records []record, changed <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	after = min(max(after, 0), len(j.records))
	n := after
	for n < len(j.records) && (n == after || j.ends[n]-j.end(after) <= maxBatch) {
		n++
	}
	return j.at(after), append([]record(nil), j.records[after:n]...), j.changed
}

// ending is where the log ends.
func (j *journal) ending() position {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last()
}

func (j *journal) last() position { return j.at(len(j.records)) }

func (j *journal) at(index int) position {
	if index == 0 {
		return position{}
	}
	return position{j.records[index-1].Token, index}
}

func (j *journal) end(index int) int64 {
	if index == 0 {
		return 0
	}
	return j.ends[index-1]
}

func (j *journal) announce() {
	close(j.changed)
	j.changed = make(chan struct{})
}
