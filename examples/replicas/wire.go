package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"
	"unicode/utf8"
)

// Nodes and clients talk in lines of JSON: a request, an answer. There is no authentication: whoever
// reaches the port can write.

const (
	maxRecord = 32 << 10  // which takes up to six times as much in JSON
	maxBatch  = 256 << 10 // of records in JSON, if there are several
	maxLine   = 512 << 10 // of a request or an answer
	maxConns  = 200       // that a node serves at a time
	idle      = time.Minute
	patience  = 3 * time.Second // for an answer to what takes no waiting
)

// A request is one of four kinds.
type request struct {
	Kind string `json:"kind"`
	// Token and From say which primary it is that claims or puts.
	Token uint64 `json:"token,omitempty"`
	From  string `json:"from,omitempty"`
	// Records are to be put after Prev.
	Prev    position `json:"prev,omitzero"`
	Records []record `json:"records,omitempty"`
	// Data is to be written.
	Data string `json:"data,omitempty"`
	// After is the number of the record after which to read.
	After int `json:"after,omitempty"`
}

const (
	claim = "claim" // a new primary: heed none before me, and tell where your log ends
	put   = "put"   // a primary: have these records, too
	write = "write" // a client, to the primary: append this
	read  = "read"  // anybody: what do you have?
)

// An answer says where the log stands, or what is wrong.
type answer struct {
	At      position `json:"at,omitzero"`
	Records []record `json:"records,omitempty"`
	// Gap says that records before those that were put are missing: go on after At.
	Gap bool `json:"gap,omitempty"`
	// Old says that the request is of a primary of the past.
	Old bool `json:"old,omitempty"`
	// Primary is the ID of the node to ask, where this is another.
	Primary string `json:"primary,omitempty"`
	Error   string `json:"error,omitempty"`
}

// checkData tells why a record cannot be written.
func checkData(data string) error {
	if len(data) > maxRecord || !utf8.ValidString(data) {
		return fmt.Errorf("a record is text of at most %d bytes", maxRecord)
	}
	return nil
}

// check tells why records cannot be a primary's.
func (r request) check() error {
	for _, one := range r.Records {
		if err := checkData(one.Data); err != nil {
			return err
		}
		if one.Token == 0 || one.Token > r.Token {
			return fmt.Errorf("a record of token %d from a primary of token %d", one.Token, r.Token)
		}
	}
	return nil
}

// A link is a connection that one side asks on and the other answers.
type link struct {
	conn  net.Conn
	lines *bufio.Scanner
}

func newLink(conn net.Conn) *link {
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, maxLine)
	return &link{conn, lines}
}

func connect(ctx context.Context, addr string) (*link, error) {
	dialer := net.Dialer{Timeout: patience}
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return newLink(conn), nil
}

// ask sends a request and waits for the answer, until ctx ends.
func (l *link) ask(ctx context.Context, r request) (a answer, err error) {
	_ = l.conn.SetDeadline(time.Time{})
	defer context.AfterFunc(ctx, func() { _ = l.conn.SetDeadline(time.Unix(1, 0)) })()
	if err = l.send(r); err == nil {
		err = l.receive(&a)
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return a, err
}

func (l *link) send(v any) error {
	line, err := json.Marshal(v)
	if err == nil {
		_, err = l.conn.Write(append(line, '\n'))
	}
	return err
}

func (l *link) receive(v any) error {
	if !l.lines.Scan() {
		return errors.Join(l.lines.Err(), errHungUp)
	}
	if err := json.Unmarshal(l.lines.Bytes(), v); err != nil {
		return fmt.Errorf("not a message: %w", err)
	}
	return nil
}

var errHungUp = errors.New("the other side has hung up")

// pause waits before another try: longer each time, up to a second. It returns false when ctx has ended.
func pause(ctx context.Context, tries int) bool {
	timer := time.NewTimer(min(20*time.Millisecond<<min(tries, 10), time.Second))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
