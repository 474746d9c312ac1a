package servertest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// SetCounter stops the server, sets the counter that numbers sequential names below path, and starts the
// server again. Creating that many nodes would take months. The server must be standalone, and nobody may
// write to it meanwhile: the transaction log would raise the counter again.
func (z *ZooKeeper) SetCounter(path string, n int32) error {
	// A start writes a snapshot of all data.
	if err := errors.Join(z.Restart(), z.Stop()); err != nil {
		return err
	}
	snapshots, err := filepath.Glob(filepath.Join(z.dataDir, "version-2", "snapshot.*"))
	if err != nil || len(snapshots) == 0 {
		return fmt.Errorf("servertest: %s: no snapshot: %w", z.Name(), err)
	}
	// The names are zxids in hexadecimal digits.
	newest := slices.MaxFunc(snapshots, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	data, err := os.ReadFile(newest)
	if err == nil {
		err = setCounter(data, path, n)
	}
	if err == nil {
		err = os.WriteFile(newest, data, 0o644)
	}
	if err != nil {
		return fmt.Errorf("servertest: %s: %s: %w", z.Name(), newest, err)
	}
	return z.Start()
}

// setCounter patches a snapshot. Source: FileSnap, DataNode and StatPersisted of Apache ZooKeeper 3.8 and 3.9,
// written by jute, big-endian:
//
//	… path, data (a length and bytes each), ACL (8), czxid (8), mzxid (8), ctime (8), mtime (8),
//	version (4), cversion (4), aversion (4), owner (8), pzxid (8) …
//	check value (8), "/"; zxid (8), digest's version (4), digest (8); check value (8), "/"
//	latest zxid (8); check value (8), "/"
//
// The digest is there unless digests are off, and the last line from 3.9 on. A check value is the Adler-32 of all
// bytes before it. ZooKeeper logs a digest that does not match and otherwise ignores it.
func setCounter(data []byte, path string, n int32) error {
	name := append(binary.BigEndian.AppendUint32(nil, uint32(len(path))), path...)
	at := bytes.Index(data, name)
	if at < 0 || bytes.LastIndex(data, name) != at {
		return fmt.Errorf("%s is not there once", path)
	}
	at += len(name)
	if length := int32(binary.BigEndian.Uint32(data[at:])); length > 0 {
		at += int(length)
	}
	const fromData = 4 + 5*8 + 4
	counter := data[at+fromData:]

	const seal, digest, latest = 8 + 4 + 1, 8 + 4 + 8, 8
	seals := []int{len(data) - seal}
	if !sealed(data, seals[0]) {
		return errors.New("its check value is not where it should be")
	}
	for _, part := range []int{latest, digest} {
		if before := seals[0] - part - seal; sealed(data, before) {
			seals = slices.Insert(seals, 0, before)
		}
	}
	binary.BigEndian.PutUint32(counter, uint32(n))
	for _, at := range seals {
		binary.BigEndian.PutUint64(data[at:], uint64(adler32.Checksum(data[:at])))
	}
	return nil
}

func sealed(data []byte, at int) bool {
	return at > 0 && binary.BigEndian.Uint64(data[at:]) == uint64(adler32.Checksum(data[:at]))
}
