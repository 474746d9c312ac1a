package main

import (
	"bufio"
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
)

// A result is what came of a campaign.
type result struct {
	trial      trial
	faults     []string // kinds, one for each that was injected
	terms      int
	commits    int // that were done
	refused    int
	unknown    int
	late       int // writes tried after the end of their terms
	unfenced   unfenced
	overlaps   int
	accepted   int // guarded writes, after the deposition
	ghosts     []string
	leaderless gap // the longest for its bound
	violations []string
}

// judge looks at all that was recorded, and at what is left in the service.
func (c *campaign) judge(ctx context.Context) (*result, error) {
	ghosts, err := c.ghosts(ctx)
	if err != nil {
		return nil, err
	}
	h, err := c.merge(ctx)
	if err != nil {
		return nil, err
	}
	lines, err := loadLines(filepath.Join(c.dir, logFile))
	if err != nil {
		return nil, err
	}
	r := &result{trial: c.trial, ghosts: ghosts}
	for _, m := range c.met {
		r.faults = append(r.faults, m.kind.name)
	}
	r.check(h)
	r.checkLines(h, lines)
	r.leaderless = worstGap(h, c.met, c.service.failover)
	r.leaderless.check(r)
	for _, ghost := range ghosts {
		r.violate("ghost", "%s is there, though all candidates have ended", ghost)
	}
	return r, h.Save(filepath.Join(c.dir, historyFile))
}

func (r *result) violate(check, format string, args ...any) {
	r.violations = append(r.violations, check+": "+fmt.Sprintf(format, args...))
}

// ghosts returns the entries that are there after those of killed candidates must have
// gone.
func (c *campaign) ghosts(ctx context.Context) ([]string, error) {
	deadline := time.Now().Add(c.service.failover + recovery)
	for {
		trying, cancel := context.WithTimeout(ctx, 10*time.Second)
		there, err := c.service.entries(trying)
		cancel()
		if err != nil || len(there) == 0 || time.Now().After(deadline) {
			return there, err
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// merge makes one history of all files, with the ledger of the register.
func (c *campaign) merge(ctx context.Context) (*history.History, error) {
	files, err := filepath.Glob(filepath.Join(c.dir, "candidate-*.jsonl"))
	if err != nil {
		return nil, err
	}
	last, err := c.read(ctx)
	if err != nil {
		return nil, err
	}
	h, err := history.Merge(append(files, filepath.Join(c.dir, faultsFile))...)
	if err != nil {
		return nil, err
	}
	values, err := chain(h, last)
	if err != nil {
		return nil, err
	}
	ledger := history.Event{ID: 1, Kind: history.Ledger, Call: h.Until + 1, Return: h.Until + 2, Outcome: history.OK, Key: register, Values: values}
	for _, e := range h.Events {
		ledger.ID = max(ledger.ID, e.ID+1)
	}
	h.Events = append(h.Events, ledger)
	return h, nil
}

// read returns what the register holds.
func (c *campaign) read(ctx context.Context) (value string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	b, err := dial.Open(ctx, c.service.url(c.service.access[0].Addr()))
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

// chain returns all values that the register has held, the last one given: each names
// the one before.
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
			return nil, fmt.Errorf("the register has held %s, and nobody has recorded that he was about to write it", name)
		}
		if len(values) > len(byName) {
			return nil, fmt.Errorf("the register has held %s twice", name)
		}
		values = append(values, value)
	}
	slices.Reverse(values)
	return values, nil
}

// check has the history checked, and counts what is in it.
func (r *result) check(h *history.History) {
	for _, v := range h.Check(history.Options{Fair: r.trial.strategy == "fair"}) {
		switch v.Check {
		case history.CheckOverlap:
			r.overlaps++
		case history.CheckEnd:
			r.accepted++
		}
		r.violate(v.Check, "%s", v.Text)
	}
	terms := h.Terms()
	r.terms = len(terms)
	for _, e := range h.Events {
		if e.Kind != history.Commit {
			continue
		}
		late := e.Term == 0
		switch {
		case late:
			r.late++
		case e.Outcome == history.OK:
			r.commits++
		case e.Outcome == history.Refused:
			r.refused++
		default:
			r.unknown++
		}
		if !late || e.Outcome != history.OK {
			continue
		}
		// It is right where the term was over for the candidate only.
		for _, t := range terms {
			if t.Token > e.Token && t.Return < e.Call {
				r.accepted++
				r.violate(history.CheckEnd, "%v was done, though %v had won before it was begun", e, t)
			}
		}
	}
}

// loadLines reads the unfenced log, in its order. A line that was torn when its process
// was killed is left out; the next one may stand on the same line then.
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
		if i := strings.LastIndex(text, "{"); i < 0 || json.Unmarshal([]byte(text[i:]), &l) != nil {
			continue
		}
		all = append(all, l)
	}
	return all, in.Err()
}
