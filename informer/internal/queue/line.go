package queue

import "github.com/gapless-io/gapless/informer/internal/handle"

// delayed is the heap of items that wait, the earliest first.
type delayed[T handle.Object] []*item[T]

// Len, Less, Swap, Push and Pop are heap.Interface.
func (d delayed[T]) Len() int           { return len(d) }
func (d delayed[T]) Less(a, b int) bool { return d[a].work.due.Before(d[b].work.due) }
func (d delayed[T]) Swap(a, b int) {
	d[a], d[b] = d[b], d[a]
	d[a].work.place, d[b].work.place = a, b
}

// Push adds an item at the end.
func (d *delayed[T]) Push(x any) {
	it, is := x.(*item[T])
	if !is {
		panic("queue: not an item")
	}
	it.work.place = len(*d)
	*d = append(*d, it)
}

// Pop removes the item at the end.
func (d *delayed[T]) Pop() any {
	old := *d
	it := old[len(old)-1]
	old[len(old)-1] = nil
	*d = old[:len(old)-1]
	return it
}

// line is a list from which any item can be removed: a key whose object was created and
// deleted without a delivery must not stay, or a blocked handler would collect them.
type line[T handle.Object] struct{ first, last *item[T] }

func (l *line[T]) push(it *item[T]) {
	it.before, it.behind = l.last, nil
	if l.last == nil {
		l.first = it
	} else {
		l.last.behind = it
	}
	l.last = it
}

func (l *line[T]) remove(it *item[T]) {
	if it.before == nil {
		l.first = it.behind
	} else {
		it.before.behind = it.behind
	}
	if it.behind == nil {
		l.last = it.before
	} else {
		it.behind.before = it.before
	}
	it.before, it.behind = nil, nil
}
