package wait

import (
	"strings"
	"sync"
)

// A Log keeps what is written to it, such as by a logger, for tests of what a user gets to read. While its
// lock is held, writers wait. The zero Log is empty.
type Log struct {
	sync.Mutex
	text strings.Builder
}

func (l *Log) Write(p []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.text.Write(p)
}

// String returns what was written so far.
func (l *Log) String() string {
	l.Lock()
	defer l.Unlock()
	return l.text.String()
}

// Has reports whether a text was written.
func (l *Log) Has(text string) bool { return strings.Contains(l.String(), text) }
