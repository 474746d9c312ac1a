package lastwill

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// A gate holds the holds of a process: a file in memory with two bytes for each. The first is 1 while
// it is held, and the second is a guard: a child that writes more than its word writes over the guard
// of its own hold before it gets to another one, and then the gate stays closed. It goes along with
// the hello. So a hold is there from the instant at which it is written, for a companion that is
// frozen, and after the process. No number of readers changes it, and no byte comes back, so that a
// child's late word opens no later hold. The file is sealed: nobody can make it shorter.
type gate struct {
	file *os.File

	mu    sync.Mutex
	holds int64
}

const (
	held  = 1
	guard = 2

	mostHolds = 1 << 19 // of a process, in all its life
)

func newGate() (*gate, error) {
	fd, err := unix.MemfdCreate("lastwill holds", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	if _, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK); err != nil {
		_ = unix.Close(fd) // nothing was written
		return nil, os.NewSyscallError("F_ADD_SEALS", err)
	}
	return &gate{file: os.NewFile(uintptr(fd), "holds")}, nil
}

func (g *gate) hold() (*Hold, error) {
	// What was opened once more has an offset of its own: a child needs to know none.
	file, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", g.file.Fd()), os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	slot := 2 * g.holds
	if g.holds == mostHolds {
		err = fmt.Errorf("this process has taken %d holds: Close this Backend and Start another", g.holds)
	} else if _, err = file.Seek(slot, io.SeekStart); err == nil {
		_, err = g.file.WriteAt([]byte{held, guard}, slot)
	}
	if err != nil {
		_ = file.Close() // nothing was written
		return nil, err
	}
	g.holds++
	return &Hold{file, func() error {
		if _, err := g.file.WriteAt([]byte{0}, slot); !errors.Is(err, os.ErrClosed) { // there is no companion any more
			return err
		}
		return nil
	}}, nil
}

// closed tells whether a process that is dead has holds that stand. What it does not understand
// stands.
func closed(gate *os.File) bool {
	holds, err := io.ReadAll(io.NewSectionReader(gate, 0, 2*mostHolds+1))
	if err != nil || len(holds) > 2*mostHolds || len(holds)%2 != 0 {
		return true
	}
	for hold := range slices.Chunk(holds, 2) {
		if hold[0] != 0 || hold[1] != guard {
			return true
		}
	}
	return false
}

// sealed tells whether a file is a gate: one in memory, whose reading does not block, and that keeps
// what was written.
func sealed(gate *os.File) bool {
	seals, err := unix.FcntlInt(gate.Fd(), unix.F_GET_SEALS, 0)
	return err == nil && seals&unix.F_SEAL_SHRINK != 0
}
