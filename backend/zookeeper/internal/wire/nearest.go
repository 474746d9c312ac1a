package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
)

// The client library would make a string of each name in a list, and keep a buffer as large as the list
// for as long as the link exists. In an election only the list of candidates grows with their number.
// So the link reads it as it comes in, and passes on the few names that are wanted.
//
// The library's call requests that by its path, a path below the candidate's entry. No such node ever
// exists, as an ephemeral node has no children. The link asks for the directory instead.
const (
	opNearest   = -OpChildren
	nearestMark = "/nearest"
)

// A Queue says which names in a directory count, and how many are wanted before an own one. They end with their
// number, in ten digits.
type Queue struct {
	Length int // of these names
	Counts func(name []byte) bool
	Wanted int
}

// compare orders names that count: by number, and those that share one by their text.
func (q *Queue) compare(a, b []byte) int {
	digits := q.Length - 10
	if c := bytes.Compare(a[digits:], b[digits:]); c != 0 {
		return c
	}
	return bytes.Compare(a, b)
}

// Nearest makes a listing of path one of the names nearest before an own one in a directory, and of the
// own one, if it is there, until done is called.
func (p *Pin) Nearest(dir, own string) (path string, done func()) {
	path = dir + "/" + own + nearestMark
	return path, p.Watching(opNearest, path)
}

// forDirectory returns the request, as it is sent, for a listing of which only the nearest names are
// wanted, and notes that for its reply.
func (l *Link) forDirectory(p []byte, path string) []byte {
	path = strings.TrimSuffix(path, nearestMark)
	slash := strings.LastIndexByte(path, '/')
	dir, own := path[:slash], path[slash+1:]
	l.noted(p, func(f *sentFrame) { f.own = own })
	request := appendBytes(slices.Clone(p[4:requestHead]), []byte(dir))
	return appendBytes(nil, append(request, 0)) // no watch
}

// listReaders are larger than a link's own buffer: a list has many names.
var listReaders = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 16<<10) }}

// passNearest reads a reply that lists names, and passes on in its place a reply with the names nearest
// before an own one, and the own one, if it is listed. The head of the frame has been looked at.
func (l *Link) passNearest(length int, own string) error {
	const head = 4 + answerHead + 4
	q := &l.pin.queue
	self := []byte(own)
	left := 4 + length - head
	if left < statLength {
		return fmt.Errorf("%w: a list of %d bytes", ErrProtocol, length)
	}
	answer := make([]byte, head, head+(q.Wanted+1)*(4+q.Length)+statLength)
	if _, err := io.ReadFull(l.in, answer); err != nil {
		return err
	}
	count := int(binary.BigEndian.Uint32(answer[head-4:]))
	in := listReaders.Get().(*bufio.Reader)
	in.Reset(io.LimitReader(l.in, int64(left)))
	defer func() {
		in.Reset(nil)
		listReaders.Put(in)
	}()
	before, spare := make([][]byte, 0, q.Wanted+1), make([]byte, q.Length) // the nearest, oldest first
	found, counts := false, q.Counts(self)
	for range count {
		size, err := in.Peek(4)
		if err != nil {
			return err
		}
		n := int(int32(binary.BigEndian.Uint32(size)))
		if left -= 4 + max(n, 0); left < statLength {
			return fmt.Errorf("%w: a name of %d bytes in a list of %d", ErrProtocol, n, length)
		}
		if n == q.Length && counts {
			name, err := in.Peek(4 + n)
			if err != nil {
				return err
			}
			name = name[4:]
			switch c := q.compare(name, self); {
			case c == 0:
				found = true
			case c > 0, len(before) == q.Wanted && q.compare(name, before[0]) < 0, !q.Counts(name):
			default:
				copy(spare, name)
				at, _ := slices.BinarySearchFunc(before, spare, q.compare)
				if before = slices.Insert(before, at, spare); len(before) <= q.Wanted {
					spare = make([]byte, q.Length)
				} else {
					spare = before[0] // not in one statement: Go may call Delete first, and spare would be a name that stays
					before = slices.Delete(before, 0, 1)
				}
			}
		}
		if _, err := in.Discard(4 + max(n, 0)); err != nil {
			return err
		}
	}
	if found {
		before = append(before, self)
	}
	binary.BigEndian.PutUint32(answer[head-4:], uint32(len(before)))
	for _, n := range before {
		answer = appendBytes(answer, n)
	}
	if left != statLength {
		return fmt.Errorf("%w: %d bytes after a list", ErrProtocol, left)
	}
	answer = answer[:len(answer)+statLength]
	if _, err := io.ReadFull(in, answer[len(answer)-statLength:]); err != nil {
		return err
	}
	binary.BigEndian.PutUint32(answer, uint32(len(answer)-4))
	l.instead = answer
	return nil
}
