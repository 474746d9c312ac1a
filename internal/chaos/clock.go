package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"
)

// Setting the machine's clock takes rights, and the clock is everybody's. So a candidate whose clock can be
// stepped is this program built with a package time that adds an offset to the wall clock that it reads.
// Nothing else is different.

// stepBy is how far a clock is stepped.
const stepBy = time.Hour

// clockTag is the build tag of a candidate whose clock can be stepped.
const clockTag = "steppedclock"

// Part of Now in package time, before and after the change.
const (
	readWall = "\tsec, nsec, mono := runtimeNow()\n\tif mono == 0 {\n"
	stepWall = "\tsec, nsec, mono := runtimeNow()\n\tsec += wallStep.Load()\n\tif mono == 0 {\n"
	wallStep = `package time

import "sync/atomic"

var wallStep atomic.Int64 // seconds

// StepWall steps the wall clock of this process.
func StepWall(d Duration) { wallStep.Add(int64(d / Second)) }
`
)

// buildStepped builds a candidate whose clock can be stepped, in dir, and returns its path. The first build
// on a machine takes long: everything that uses package time is rebuilt.
func buildStepped(ctx context.Context, dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	root, err := runGo(ctx, "env", "GOROOT")
	if err != nil {
		return "", err
	}
	std := filepath.Join(root, "src", "time")
	source, err := os.ReadFile(filepath.Join(std, "time.go"))
	if err != nil {
		return "", err
	}
	if bytes.Count(source, []byte(readWall)) != 1 {
		return "", errors.New("this version of Go has another time.Now than clock.go knows: adapt readWall there, or leave stepped clocks out by -clock=false")
	}
	patched, added := filepath.Join(dir, "time.go"), filepath.Join(dir, "step.go")
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(std, "time.go"): patched,
		filepath.Join(std, "step.go"): added,
	}})
	if err != nil {
		return "", err
	}
	program, replace := filepath.Join(dir, "candidate"), filepath.Join(dir, "overlay.json")
	err = errors.Join(
		os.WriteFile(patched, bytes.Replace(source, []byte(readWall), []byte(stepWall), 1), 0o644),
		os.WriteFile(added, []byte(wallStep), 0o644),
		os.WriteFile(replace, overlay, 0o644),
	)
	if err != nil {
		return "", err
	}
	_, err = runGo(ctx, "build", "-overlay", replace, "-tags", clockTag, "-o", program, "github.com/elector-go/elector/internal/chaos")
	return program, err
}
