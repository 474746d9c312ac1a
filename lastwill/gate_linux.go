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

// A gate stores the holds of a process: a file in memory with two bytes for each. The first byte is 1
// while the hold is taken, and the second is a guard: a child that writes more than its word overwrites
// the guard of its own hold before it reaches another one, and then the gate stays closed. The gate is
// sent with the hello. So a hold takes effect at the instant at which it is written, even for a frozen
// companion, and after the process. The number of readers does not matter, and no byte is reused, so that
// a child's late word opens no later hold. The file is sealed: nobody can shorten it.
type gate struct {
	file *os.File

	mu    sync.Mutex
	holds int64
}

const (
	held  = 1
	guard = 2

	mostHolds = 1 << 19 // of a process, in its whole life
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
	// A file that is opened again has its own offset, so a child need not know one.
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

// closed reports whether a dead process has holds that are not released. It treats invalid data as a hold.
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

// sealed reports whether a file is a gate: a file in memory that never blocks a read, and keeps what was
// written.
func sealed(gate *os.File) bool {
	seals, err := unix.FcntlInt(gate.Fd(), unix.F_GET_SEALS, 0)
	return err == nil && seals&unix.F_SEAL_SHRINK != 0
}
