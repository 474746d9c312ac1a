package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// A position is the place of a record: the token of the term in which it was written, and its number in the
// log, from 1. The log that ends at the higher position has all that was acknowledged.
type position struct {
	Token uint64 `json:"token"`
	Index int    `json:"index"`
}

// rank compares positions, and replicas. The numbers fit: tokens are revisions.
func (p position) rank() []int64 { return []int64{int64(p.Token), int64(p.Index)} }

// A record is one entry of the log.
type record struct {
	Token uint64 `json:"token"`
	Data  string `json:"data"`
}

// A put is a primary's request to a log: refuse all primaries before me, and store these records after Prev.
// With no records it is a claim.
type put struct {
	Token   uint64   `json:"token"`
	Prev    position `json:"prev"`
	Records []record `json:"records,omitempty"`
}

// errOld refuses a put of a former primary.
var errOld = errors.New("a later primary has claimed this log")

// errGap refuses records whose predecessor is missing.
var errGap = errors.New("the log does not have the record before these")

// A journal is a replica's log, and the highest token that it has promised to heed. Its file has a line for
// each put that changed one of them. It is safe for concurrent use.
type journal struct {
	mu       sync.Mutex
	file     *os.File
	size     int64 // of the valid lines
	promised uint64
	records  []record
}

// openJournal creates a file, or replays it. A last line without an end was never acknowledged.
func openJournal(path string) (*journal, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(file)
	dir, errDir := os.Open(filepath.Dir(path)) // has the name of a new file
	if err := errors.Join(err, file.Sync(), errDir, dir.Sync(), dir.Close()); err != nil {
		return nil, err
	}
	for j := (&journal{file: file}); ; {
		line, rest, whole := bytes.Cut(text, []byte("\n"))
		if !whole {
			return j, nil
		}
		var p put
		if err := json.Unmarshal(line, &p); err != nil {
			return nil, fmt.Errorf("%s, at byte %d: %w", path, j.size, err)
		}
		j.apply(p)
		j.size += int64(len(line)) + 1
		text = rest
	}
}

// put does what a primary asks. It syncs the file before it returns, so that no crash undoes it.
func (j *journal) put(p put) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if p.Token < j.promised || p.Token == 0 {
		return fmt.Errorf("%w: token %d comes after %d", errOld, p.Token, j.promised)
	}
	if p.Prev.Index < 0 || p.Prev.Index > len(j.records) || p.Prev != j.at(p.Prev.Index) {
		return errGap
	}
	// Records that are there already stay. They have the same token, so the same primary wrote them.
	for len(p.Records) > 0 && p.Prev.Index < len(j.records) && p.Records[0].Token == j.records[p.Prev.Index].Token {
		p.Prev, p.Records = j.at(p.Prev.Index+1), p.Records[1:]
	}
	if p.Token == j.promised && len(p.Records) == 0 {
		return nil
	}
	line, err := json.Marshal(p)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	_, err = j.file.WriteAt(line, j.size) // over the remains of a write that failed
	size := j.size + int64(len(line))
	if err := errors.Join(err, j.file.Truncate(size), j.file.Sync()); err != nil {
		return err
	}
	j.size = size
	j.apply(p)
	return nil
}

// apply overwrites what differs, with all that follows it: it was never acknowledged.
func (j *journal) apply(p put) {
	j.promised = p.Token
	if len(p.Records) > 0 {
		j.records = append(j.records[:p.Prev.Index], p.Records...)
	}
}

// read returns the records after a number, and the position before them.
func (j *journal) read(after int) (prev position, records []record) {
	j.mu.Lock()
	defer j.mu.Unlock()
	after = min(after, len(j.records))
	return j.at(after), slices.Clone(j.records[after:])
}

// end returns the position of the last record.
func (j *journal) end() position {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.at(len(j.records))
}

func (j *journal) at(index int) position {
	if index == 0 {
		return position{}
	}
	return position{j.records[index-1].Token, index}
}
