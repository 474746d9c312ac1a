package lastwill

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/elector-go/elector/internal/asynclog"
	"github.com/elector-go/elector/internal/companion"
)

var (
	// marked is the connection to the process, nil in a process.
	marked = unmark()
	// args and dir are those of the program, before main changes them.
	args   = slices.Clone(os.Args)
	dir, _ = os.Getwd() // "": the current directory of the process at that time

	reached   *time.Timer // fires if Start is not reached
	inherited []int       // descriptors
)

// arguments returns the arguments of a companion. The companion of a test binary that runs tests lists no
// tests, and runs none: otherwise it would run all tests before the one that calls Start. A binary that
// has not parsed flags runs no tests; it may be a program that uses the test binary as itself.
func arguments() []string {
	if flag.Lookup("test.list") == nil || !flag.Parsed() {
		return args
	}
	return slices.Insert(slices.Clone(args), 1, "-test.list=^$")
}

// directory returns where a companion starts: main may open files by relative paths. "" is the current
// directory of the process, if it cannot go back.
func directory() string {
	if unix.Faccessat(unix.AT_FDCWD, dir, unix.X_OK, unix.AT_EACCESS) != nil {
		return ""
	}
	return dir
}

// unmark takes over the connection to the process, and ensures that no child of this process inherits it.
func unmark() *os.File {
	if !companion.Marked {
		return nil
	}
	fd, err := strconv.Atoi(companion.Connection)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC)
	}
	if err != nil {
		asynclog.Print(os.Stderr, asynclog.AtExit, fmt.Sprintf("lastwill: %s=%s: %v\n", companion.Marker, companion.Connection, err))
		os.Exit(1)
	}
	// A companion that does not reach Start repeats everything that the process does.
	reached = time.AfterFunc(greeting, func() {
		asynclog.Print(os.Stderr, asynclog.AtExit, fmt.Sprintf("lastwill: %v\n", errMain))
		os.Exit(1)
	})
	inherited = inheritable()
	return os.NewFile(uintptr(fd), "connection")
}

// becomeCompanion is Start in a companion. It ends the program.
func becomeCompanion(connection *os.File, open Opener, log *slog.Logger) {
	reached.Stop()
	// It must outlive the process, regardless of what ends that.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	_ = os.WriteFile("/proc/self/comm", []byte("lastwill"), 0) // to be recognizable in a list of processes
	// A listener stays open, and a pipe has no end, as long as one of two processes has it.
	for _, fd := range inheritable() {
		if slices.Contains(inherited, fd) {
			_ = unix.Close(fd) // nothing was written
		}
	}
	conn, err := connOf(connection)
	if err != nil {
		log.Error("companion", "err", err)
		asynclog.Flush(context.Background(), log, asynclog.AtExit)
		os.Exit(1)
	}
	debug.FreeOSMemory() // what main and packages have left behind
	newServer(nil, open, log).attend(context.Background(), conn)
	asynclog.Flush(context.Background(), log, asynclog.AtExit)
	os.Exit(0)
}

// inheritable returns the descriptors that exec does not close. Go's own descriptors are not among them:
// at the beginning they are those that the parent process has left open.
func inheritable() (fds []int) {
	all, _ := os.ReadDir("/proc/self/fd") // on an error, none
	for _, f := range all {
		fd, err := strconv.Atoi(f.Name())
		if err != nil || fd <= 2 {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			fds = append(fds, fd)
		}
	}
	return fds
}
