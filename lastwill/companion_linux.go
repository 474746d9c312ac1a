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
	// marked is that connection, nil in a process.
	marked = unmark()
	// args and dir are those of the program, before main changes them.
	args   = slices.Clone(os.Args)
	dir, _ = os.Getwd() // "": wherever the process is then

	reached   *time.Timer // until Start
	inherited []int       // descriptors
)

// arguments are those of a companion. That of a test binary that runs tests lists none, and runs none: it
// would run all those before the one that calls Start. What has parsed no flags runs none, and is
// perhaps a program that has the test binary be itself.
func arguments() []string {
	if flag.Lookup("test.list") == nil || !flag.Parsed() {
		return args
	}
	return slices.Insert(slices.Clone(args), 1, "-test.list=^$")
}

// directory is where a companion starts: main may find files by relative paths. "" is where the process
// is, if it cannot go back.
func directory() string {
	if unix.Faccessat(unix.AT_FDCWD, dir, unix.X_OK, unix.AT_EACCESS) != nil {
		return ""
	}
	return dir
}

// unmark takes over the connection to the process, and sees to it that no child of this one has it.
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
	// Whoever does not reach Start does all over what the process does.
	reached = time.AfterFunc(greeting, func() {
		asynclog.Print(os.Stderr, asynclog.AtExit, fmt.Sprintf("lastwill: %v\n", errMain))
		os.Exit(1)
	})
	inherited = inheritable()
	return os.NewFile(uintptr(fd), "connection")
}

// becomeCompanion is what Start does in a companion. It ends the program.
func becomeCompanion(connection *os.File, open Opener, log *slog.Logger) {
	reached.Stop()
	// It has to be there after the process, whatever ends that.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	_ = os.WriteFile("/proc/self/comm", []byte("lastwill"), 0) // so that it is told apart in a list of processes
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

// inheritable returns the descriptors that exec does not close. What Go opens is not among them: at
// the beginning they are what whoever started the process has left open for it.
func inheritable() (fds []int) {
	all, _ := os.ReadDir("/proc/self/fd") // without: none
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
