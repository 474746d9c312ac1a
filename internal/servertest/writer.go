package servertest

import (
	"io"
	"sync"
)

// sharedWriter lets several processes write to one writer.
type sharedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

// share makes w safe for concurrent use; nil stays nil.
func share(w io.Writer) io.Writer {
	if w == nil {
		return nil
	}
	if s, ok := w.(*sharedWriter); ok {
		return s
	}
	return &sharedWriter{w: w}
}

func (s *sharedWriter) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(b)
}
