package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/dial"
	"github.com/elector-go/elector/conformance/history"
	"github.com/elector-go/elector/internal/program"
)

// evidence is all that a campaign has recorded.
type evidence struct {
	history  *history.History // with the ledger of the register
	lines    []line           // of the unfenced log
	faults   []meeting
	outages  []meeting
	failover failover // of the service
	ghosts   []string // entries that no candidate owns
	wrong    []string // what the controller has seen go wrong
	losses   []loss   // of sessions of living candidates
	executed int      // sessions that companions have ended
}

// collect gathers the evidence. The candidates have ended.
func (c *campaign) collect(ctx context.Context) (*evidence, error) {
	ghosts, err := c.ghosts(ctx)
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(c.dir, "candidate-*.jsonl"))
	if err != nil {
		return nil, err
	}
	h, err := history.Merge(append(files, filepath.Join(c.dir, faultsFile))...)
	if err != nil {
		return nil, err
	}
	lines, err := loadLines(filepath.Join(c.dir, logFile))
	if err != nil {
		return nil, err
	}
	e := &evidence{history: h, lines: lines, faults: c.met, outages: c.outages, failover: c.service.failover, ghosts: ghosts, wrong: c.wrong}
	for _, x := range c.children {
		e.losses = append(e.losses, x.losses...) // x has ended
		e.executed += bytes.Count(x.said(), []byte("ended the session of a dead process"))
	}
	if c.elector != "" {
		return e, nil // nobody has written to the register or recorded a history
	}
	last, err := c.read(ctx)
	if err != nil {
		return nil, err
	}
	if err := e.keepLedger(last); err != nil {
		e.wrong = append(e.wrong, err.Error())
	}
	return e, h.Save(filepath.Join(c.dir, historyFile))
}

// ghosts returns the entries that still exist when those of killed candidates must be gone.
func (c *campaign) ghosts(ctx context.Context) ([]string, error) {
	deadline := time.Now().Add(c.service.failover.most() + recovery)
	for {
		trying, cancel := context.WithTimeout(ctx, 10*time.Second)
		there, err := c.service.entriesAt(trying, c.service.Addr())
		cancel()
		if err != nil || len(there) == 0 || time.Now().After(deadline) {
			return there, err
		}
		if err := program.Sleep(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// read returns the value of the register.
func (c *campaign) read(ctx context.Context) (value string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	b, err := dial.Open(ctx, c.service.url(c.service.Addr()))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	s, err := b.Open(ctx, backend.OpenOptions{})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, s.Close(ctx)) }()
	e, err := s.Get(ctx, register)
	return string(e.Value), err
}

// keepLedger adds all values of the register to the history, up to the last.
func (e *evidence) keepLedger(last string) error {
	values, err := chain(e.history, last)
	if err != nil {
		return err
	}
	at := e.history.Until + 1
	ledger := history.Event{ID: 1, Kind: history.Ledger, Call: at, Return: at + 1, Outcome: history.OK, Key: register, Values: values}
	for _, other := range e.history.Events {
		ledger.ID = max(ledger.ID, other.ID+1)
	}
	e.history.Events = append(e.history.Events, ledger)
	return nil
}

// chain returns all values that the register has had, up to the given last one: each value names the one
// before.
func chain(h *history.History, last string) ([]string, error) {
	byName := map[string]string{}
	for _, e := range h.Events {
		for _, w := range e.Writes {
			byName[nameOf(w.Value)] = w.Value
		}
	}
	values := []string{last}
	for name := nameBefore(last); name != ""; name = nameBefore(values[len(values)-1]) {
		value, known := byName[name]
		if !known {
			return nil, fmt.Errorf("once: the register has held %s, and nobody had recorded that it was about to be written", name)
		}
		if len(values) > len(byName) {
			return nil, fmt.Errorf("once: the register has held %s, and came back to it", name)
		}
		values = append(values, value)
	}
	slices.Reverse(values)
	return values, nil
}

// loadLines reads the unfenced log in its order. It leaves out a line that was torn when its process was
// killed; the next line may follow it directly.
func loadLines(path string) ([]line, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var all []line
	in := bufio.NewScanner(file)
	for in.Scan() {
		text := in.Text()
		var l line
		if i := strings.LastIndex(text, "{"); i >= 0 && json.Unmarshal([]byte(text[i:]), &l) == nil {
			all = append(all, l)
		}
	}
	return all, in.Err()
}
