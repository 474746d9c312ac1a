package bubble

import (
	"errors"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestTimeIsSimulated(t *testing.T) {
	began := time.Now()
	var took time.Duration
	err := Run(func() error {
		began := time.Now()
		var all sync.WaitGroup
		for i := range 1000 {
			all.Go(func() { time.Sleep(time.Duration(i) * time.Hour) })
		}
		all.Wait()
		took = time.Since(began)
		synctest.Wait()
		return nil
	})
	if err != nil || took != 999*time.Hour {
		t.Errorf("took %v, %v", took, err)
	}
	if real := time.Since(began); real > time.Minute {
		t.Errorf("that took %v of real time", real)
	}
}

func TestErrors(t *testing.T) {
	ours := errors.New("ours")
	for name, c := range map[string]struct {
		f    func() error
		want string
	}{
		"an error":          {func() error { return ours }, "ours"},
		"a panic":           {func() error { panic("oh") }, "panic: oh"},
		"a goroutine's end": {func() error { runtime.Goexit(); return nil }, "ended its goroutine"},
		"a deadlock":        {func() error { select {} }, "deadlock: all goroutines in bubble are blocked"},
		"left behind":       {func() error { go func() { select {} }(); return nil }, "deadlock: main bubble goroutine has exited"},
		"left, and failed":  {func() error { go func() { select {} }(); return ours }, "ours"},
		"within":            {func() error { return Run(func() error { return nil }) }, "within a synctest bubble"},
	} {
		if err := Run(c.f); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if err := Run(func() error { return ours }); !errors.Is(err, ours) {
		t.Errorf("%v is not the function's error", err)
	}
}

// Bubbles do not disturb each other: each has a clock of its own.
func TestSideBySide(t *testing.T) {
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			err := Run(func() error {
				began := time.Now()
				time.Sleep(time.Duration(i) * time.Minute)
				if took := time.Since(began); took != time.Duration(i)*time.Minute {
					t.Errorf("%d: took %v", i, took)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// A program that go test has no hand in: no flags appear, none are parsed, and nothing is
// printed but what it prints itself.
func TestInPlainProgram(t *testing.T) {
	program := filepath.Join(t.TempDir(), "plain")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./testdata/plain").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), program, "-test.v", "-x").CombinedOutput()
	want := "2000-02-11T16:00:00Z\nbubble: deadlock: all goroutines in bubble are blocked\n0 false 3 true\n"
	if err != nil || string(out) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, out, want)
	}
}
