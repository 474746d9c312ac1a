package servertest

import (
	"errors"
	"syscall"
)

// MemoryDir returns a folder whose files are in memory, or "" if there is none with enough room.
func MemoryDir() string {
	const (
		dir   = "/dev/shm"
		tmpfs = 0x01021994
		room  = 1 << 30 // bytes, for a dozen servers
	)
	var fs syscall.Statfs_t
	err := errors.Join(syscall.Statfs(dir, &fs), syscall.Access(dir, 0x2)) // W_OK
	if err != nil || fs.Type != tmpfs || fs.Bavail*uint64(fs.Bsize) < room {
		return ""
	}
	return dir
}
