package queue

import "time"

// pending is one thing that a handler has still to be told: that the object is in
// state new, or (new zero) that it was deleted.
type pending[T comparable] struct {
	new, last T
	rv        string
	merged    int
	initial   bool
	inferred  bool
	resync    bool
	// counts says that Registration.Synced waits for this one.
	counts bool
}

// changes is how many changes p stands for.
func (p *pending[T]) changes() int {
	if p.resync {
		return p.merged
	}
	return p.merged + 1
}

// itemState is where a key stands.
type itemState int

const (
	itemReady   itemState = iota // in the queue's ready list
	itemActive                   // a worker has it
	itemDelayed                  // it failed and waits for its time
)

// item is one key that a handler is behind on.
type item[T comparable] struct {
	key   Key
	state itemState
	// seen is the state that the handler handled last, shown the one that it was
	// told last, handled or not.
	seen, shown T
	// current is what a worker is telling now, while the item is active.
	current  T
	todo     []pending[T] // oldest first; when merging, at most a deletion and a state
	attempts int
	due      time.Time // of itemDelayed
	place    int       // in the heap of delayed items

	before, behind *item[T] // in the line of ready items
}

// put adds p behind what is already to be told. When merging, the handler is told
// the way from what it saw to the newest state, without the states between.
// It returns how many initial objects were dropped untold.
func (it *item[T]) put(p pending[T], merge bool) (dropped int) {
	var none T
	if !merge || len(it.todo) == 0 {
		it.todo = append(it.todo, p)
		return 0
	}
	last := &it.todo[len(it.todo)-1]
	switch {
	case last.new == none: // deleted, and now there again: both are told
		it.todo = append(it.todo, p)
		return 0
	case p.new != none:
		p.merged += last.changes()
		p.initial, p.counts = last.initial, last.counts
		*last = p
		return 0
	}
	if last.counts {
		dropped = 1
	}
	p.merged += last.changes()
	it.todo = it.todo[:len(it.todo)-1]
	if len(it.todo) > 0 {
		it.todo[len(it.todo)-1].merged += p.merged + 1
		return dropped // the deletion that stands there already says it
	}
	heard := it.seen != none || it.shown != none
	if it.state == itemActive {
		heard = it.current != none // after that call
	}
	if !heard {
		return dropped
	}
	it.todo = append(it.todo, p)
	return dropped
}

// again puts back what a handler failed at, in front of what came meanwhile.
func (it *item[T]) again(p pending[T], merge bool) (dropped int) {
	later := it.todo
	it.todo = append(make([]pending[T], 0, 1+len(later)), p)
	for _, l := range later {
		dropped += it.put(l, merge)
	}
	return dropped
}

// told says what the handler is told by p.
func (it *item[T]) told(p pending[T]) Told[T] {
	var none T
	e := Told[T]{
		Key: it.key, Old: it.seen, New: p.new, RV: p.rv,
		Initial: p.initial, Inferred: p.inferred, Merged: p.merged, Attempt: it.attempts,
	}
	switch {
	case p.new == none:
		e.Kind = Deleted
		switch {
		case p.last != none:
			e.Old = p.last
		case it.seen == none:
			e.Old = it.shown
		}
	case p.resync:
		e.Kind = Resync
	case it.seen == none:
		e.Kind = Added
	default:
		e.Kind = Modified
	}
	return e
}

// delayed is the heap of items that wait, the earliest first.
type delayed[T comparable] []*item[T]

// Len, Less, Swap, Push and Pop are heap.Interface.
func (d delayed[T]) Len() int           { return len(d) }
func (d delayed[T]) Less(a, b int) bool { return d[a].due.Before(d[b].due) }
func (d delayed[T]) Swap(a, b int) {
	d[a], d[b] = d[b], d[a]
	d[a].place, d[b].place = a, b
}

// Push adds an item at the end.
func (d *delayed[T]) Push(x any) {
	it, is := x.(*item[T])
	if !is {
		panic("queue: not an item")
	}
	it.place = len(*d)
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

// line is a queue that an item can leave from the middle: a key that came and went
// untold must not stay behind, or a blocked handler would collect them.
type line[T comparable] struct{ first, last *item[T] }

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
