package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An interrupt leaves no process.
func TestInterrupt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	s := stage{packages: []string{"..."}, module: fakeModule(t, map[string]string{
		// It does not heed the interrupt itself.
		"hangs": `import ("os"; "os/signal"; "strconv"; "testing"; "time")
func TestX(t *testing.T) {
	signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	os.WriteFile("` + file + `~", []byte(strconv.Itoa(os.Getpid())), 0o666)
	os.Rename("` + file + `~", "` + file + `")
	time.Sleep(time.Hour)
}`,
	})}
	ctx, stop := context.WithCancel(t.Context())
	pid := 0
	go func() {
		defer stop()
		for ctx.Err() == nil {
			if text, err := os.ReadFile(file); err == nil {
				pid, _ = strconv.Atoi(string(text))
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	o := outcome{screen: io.Discard, file: io.Discard}
	code, _ := runStageIn(t, ctx, s, &o)
	assert.NotZero(t, code)
	require.NotZero(t, pid)
	assert.Eventually(t, func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH }, time.Minute, 10*time.Millisecond)
}
