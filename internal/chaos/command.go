package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/elector-go/elector/conformance/history"
)

// A candidate may be an `elector run`. Then this program is its command: it reports that it is alive, and
// so does a process that it has started. No two with different tokens may be alive at the same time.

const (
	// liveEvery is how often a command reports that it is alive.
	liveEvery = 5 * time.Millisecond

	// longestLife is when a command ends by itself: elector has failed to end it.
	longestLife = time.Minute

	// descendant is the variable that tells a process that a command has started it.
	descendant = "ELECTOR_CHAOS_DESCENDANT"
)

// buildElector builds the command elector in dir, and returns its path.
func buildElector(ctx context.Context, dir string) (string, error) {
	program, err := filepath.Abs(filepath.Join(dir, "elector"))
	if err != nil {
		return "", err
	}
	root, err := runGo(ctx, "list", "-m", "-f", "{{.Dir}}", "github.com/elector-go/elector")
	if err != nil {
		return "", err
	}
	_, err = runGo(ctx, "-C", filepath.Join(root, "cmd", "elector"), "build", "-o", program, ".") // it is in another module
	return program, err
}

// runGo returns the output of the go command.
func runGo(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", args...).Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		err = fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, failed.Stderr)
	}
	return string(bytes.TrimSpace(out)), err
}

// electorRun returns a candidate whose command is command.
func electorRun(o candidateOptions, command string) *exec.Cmd {
	return exec.Command(o.Elector, "run", o.URL, election, "--id", o.ID, "--strategy", o.Strategy,
		"--restart", "--grace", "500ms", "--", command)
}

// beCommand reports that it is alive until it is killed, obeys a request to end, or a while has passed.
func beCommand(o candidateOptions) error {
	token, err := strconv.ParseUint(os.Getenv("ELECTOR_TOKEN"), 10, 64)
	if err != nil {
		return err
	}
	clock, err := history.Machine()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(o.Log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	live := func() error {
		at := clock.Now()
		return json.NewEncoder(log).Encode(line{Process: o.Name, Token: token, Asked: at, Written: at}) // in one write
	}
	if err := live(); err != nil { // before everything else
		return err
	}
	random := rand.New(rand.NewPCG(o.Seed, uint64(os.Getpid())))
	ends := time.Now().Add(longestLife)
	terms := make(chan os.Signal, 1)
	signal.Notify(terms, syscall.SIGTERM)
	leads := os.Getenv(descendant) == ""
	if leads {
		fmt.Println(saysLeads, token)
		if err := startDescendant(random.IntN(2) > 0); err != nil {
			return err
		}
		if random.IntN(3) > 0 {
			ends = time.Now().Add(time.Duration(random.Int64N(int64(longestTerm))))
		}
	}
	heeds := leads && random.IntN(2) > 0
	for told := time.Now(); time.Now().Before(ends); time.Sleep(liveEvery) {
		if err := live(); err != nil {
			return err
		}
		if leads && time.Since(told) > tellEvery {
			fmt.Println(saysWorks)
			told = time.Now()
		}
		select {
		case <-terms:
			if heeds {
				return nil
			}
		default:
		}
	}
	return nil
}

// startDescendant starts a process that does what the command does, in the command's group or outside it.
func startDescendant(leaves bool) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), descendant+"=1")
	cmd.SysProcAttr = descendantAttr(leaves)
	return cmd.Start()
}

// checkLives finds commands that were alive after the command of a later term had begun.
func (r *result) checkLives(e *evidence) {
	r.unfenced.lines = len(e.lines)
	first, last := map[uint64]line{}, map[uint64]line{}
	for _, l := range e.lines {
		if at, known := first[l.Token]; !known || l.Written < at.Written {
			first[l.Token] = l
		}
		if l.Written > last[l.Token].Written {
			last[l.Token] = l
		}
	}
	tokens := slices.Sorted(maps.Keys(first))
	r.terms = len(tokens)
	var latest line // of those with lower tokens
	for _, token := range tokens {
		if begin := first[token]; latest.Written >= begin.Written {
			r.overlaps++
			r.violate(history.CheckOverlap, "a command of %s with token %d lived at %d, and one of %s with token %d had begun at %d",
				latest.Process, latest.Token, latest.Written, begin.Process, token, begin.Written)
		}
		if l := last[token]; l.Written > latest.Written {
			latest = l
		}
	}
}
