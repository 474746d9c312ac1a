package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// An output is a file that is written at the end. create checks early that it can be. The old content stays
// until then.
type output struct {
	path string
	tmp  *os.File // renamed to path in the end, or path itself if that is not a regular file
}

// create opens an output.
func create(path string) (*output, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, fmt.Errorf("%s is a directory: name a file", path)
	default: // a file that may not be written may not be replaced either
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil || !info.Mode().IsRegular() { // such as a pipe
			return &output{path, f}, err
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
	// Not os.CreateTemp, whose files only the user may read.
	name := fmt.Sprintf(".%s.%d", filepath.Base(path), os.Getpid())
	f, err := os.OpenFile(filepath.Join(filepath.Dir(path), name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be written: %w", path, errors.Unwrap(err))
	}
	return &output{path, f}, nil
}

// write writes the output, or leaves it unchanged.
func (o *output) write(do func(io.Writer) error) error {
	err := do(o.tmp)
	err = errors.Join(err, o.tmp.Close())
	if o.tmp.Name() != o.path {
		if err == nil {
			err = os.Rename(o.tmp.Name(), o.path)
		}
		if err != nil {
			_ = os.Remove(o.tmp.Name()) // err says why
		}
	}
	o.tmp = nil
	return err
}

// discard leaves the output unchanged, unless it has been written.
func (o *output) discard() {
	if o == nil || o.tmp == nil {
		return
	}
	_ = o.tmp.Close() // nothing was written
	if o.tmp.Name() != o.path {
		_ = os.Remove(o.tmp.Name())
	}
}
