package memory

import "iter"

// A list is doubly linked: adding the youngest element, removing any and finding the one before take
// constant time, with any number of candidates.
type list[T any] struct{ first, last *place[T] }

// A place is the position of an element in a list. It is a part of the element.
type place[T any] struct {
	of         *T
	prev, next *place[T]
}

func (l *list[T]) add(p *place[T], of *T) {
	p.of, p.prev, p.next = of, l.last, nil
	if l.last != nil {
		l.last.next = p
	} else {
		l.first = p
	}
	l.last = p
}

func (l *list[T]) remove(p *place[T]) {
	if p.prev != nil {
		p.prev.next = p.next
	} else {
		l.first = p.next
	}
	if p.next != nil {
		p.next.prev = p.prev
	} else {
		l.last = p.prev
	}
	*p = place[T]{}
}

// all yields the oldest first.
func (l *list[T]) all() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for p := l.first; p != nil && yield(p.of); p = p.next {
		}
	}
}
