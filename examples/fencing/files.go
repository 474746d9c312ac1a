package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// Files is a guard in front of a directory, as an object store or a file server is. It remembers one token
// for all files, so that the first write of a new leader, or its Claim, shuts out all older ones from
// everything.
//
// One process owns the directory. Two would remember different tokens.
type Files struct {
	dir string

	mu      sync.Mutex
	highest uint64 // the content of the token file
}

// OpenFiles serves a directory, which must exist.
func OpenFiles(dir string) (*Files, error) {
	f := &Files{dir: dir}
	text, err := os.ReadFile(f.tokenFile())
	switch {
	case err == nil:
		f.highest, err = strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
		if err != nil {
			// Beginning at 0 again would let every old leader in.
			return nil, fmt.Errorf("%s: %w", f.tokenFile(), err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(dir, "data"), 0o755); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *Files) tokenFile() string { return filepath.Join(f.dir, "token") }

// Claim shuts out all older leaders. A new one claims before it reads.
func (f *Files) Claim(token uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.raise(token)
}

// Put writes a file. It holds the lock from the look at the token to the end of the write. Otherwise a newer
// leader's write could come in between and be undone.
func (f *Files) Put(token uint64, name string, data []byte) error {
	path, err := f.path(name)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.raise(token); err != nil {
		return err
	}
	return f.replace(path, data)
}

// Get reads a file. It returns the old or the new content, never a part.
func (f *Files) Get(name string) ([]byte, error) {
	path, err := f.path(name)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// Highest returns the highest accepted token.
func (f *Files) Highest() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.highest
}

// raise refuses an old token, and remembers a new one BEFORE anything is done in its name. The other way
// round, a crash in between would leave the write of a leader that nobody remembers, and the leader before it
// could overwrite it. f.mu is held.
func (f *Files) raise(token uint64) error {
	switch {
	case token == 0:
		return errNoToken
	case token < f.highest:
		return fmt.Errorf("%w: %d, and %d has been here", errOldToken, token, f.highest)
	case token == f.highest:
		return nil // the next write of the same term
	}
	if err := f.replace(f.tokenFile(), strconv.AppendUint(nil, token, 10)); err != nil {
		return err
	}
	f.highest = token
	return nil
}

// replace writes a file. A crash leaves the old content or the new one, and after the return the new one.
// f.mu is held.
func (f *Files) replace(path string, data []byte) error {
	next := filepath.Join(f.dir, "next") // a leftover of a crash is overwritten
	if err := writeSynced(next, data); err != nil {
		return err
	}
	if err := os.Rename(next, path); err != nil {
		return err
	}
	parent, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer parent.Close()
	return parent.Sync() // the name is in the directory, not in the file
}

func writeSynced(path string, data []byte) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

var errName = errors.New("not the name of a file")

// path refuses names that would lead elsewhere, such as "../token".
func (f *Files) path(name string) (string, error) {
	if name != filepath.Base(name) || !filepath.IsLocal(name) || name == "." {
		return "", fmt.Errorf("%w: %q", errName, name)
	}
	return filepath.Join(f.dir, "data", name), nil
}
