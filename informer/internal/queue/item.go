package queue

import "time"

// pending is one thing that a handler has still to be told: that the object is in
// state new, or (new zero) that it was deleted.
type pending[T comparable] struct {
	new, last T
	rv        string
	since     time.Time // when the oldest change in it came; zero: it is no change
	merged    int
	initial   bool
	inferred  bool
	resync    bool // nothing changed; a zero new says that there is no object
	// must says that it was asked for, or that another object has the name: it is
	// told even if nothing changed that the handler looks at.
	must bool
	// counts says that Synced waits for this one.
	counts bool
}

// changes is how many changes p stands for.
func (p *pending[T]) changes() int {
	if p.resync {
		return p.merged
	}
	return p.merged + 1
}

// over makes p stand for last too, which it replaces. It returns how many initial
// objects were dropped untold.
func (p *pending[T]) over(last pending[T]) (dropped int) {
	p.merged += last.changes()
	p.must = p.must || last.must
	if !last.since.IsZero() {
		p.since = last.since
	}
	var none T
	switch {
	case p.new != none:
		if p.counts && last.counts {
			dropped = 1
		}
		p.initial, p.counts = p.initial || last.initial, p.counts || last.counts
	case last.counts:
		dropped = 1
	}
	return dropped
}

// merging says what becomes of changes of a key that waits.
type merging int

const (
	mergeNothing merging = iota // each version is told
	mergeStates                 // the newest state, and before it a deletion
	mergeKeys                   // one thing: look at the key
)

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
	// seen is the state that the handler handled last, or passed over.
	seen T
	todo []pending[T] // oldest first
	work *work[T]     // nil until a worker has had it: most of many that wait need none

	before, behind *item[T] // in the line of ready items
}

// work is what is known of an item from its calls.
type work[T comparable] struct {
	// shown is a state that the handler was told since seen, and did not handle.
	shown T
	// owes says that a call for this key began and did not succeed since.
	owes bool
	// current is what a worker is telling now, while the item is active, and since
	// the time of its change.
	current  T
	since    time.Time
	attempts int
	due      time.Time // of itemDelayed
	place    int       // in the heap of delayed items
}

// put adds p behind what is already to be told. When merging, the handler is told
// the way from what it saw to the newest state, without the states between.
// It returns how many initial objects were dropped untold.
func (it *item[T]) put(p pending[T], m merging) (dropped int) {
	var none T
	if m == mergeNothing || len(it.todo) == 0 {
		it.todo = append(it.todo, p)
		return 0
	}
	last := &it.todo[len(it.todo)-1]
	switch {
	case last.new == none && m == mergeStates: // deleted, and now there again: both are told
		it.todo = append(it.todo, p)
		return 0
	case p.new != none:
		p.must = p.must || last.new == none
		dropped = p.over(*last)
		*last = p
		return dropped
	}
	dropped = p.over(*last)
	it.todo = it.todo[:len(it.todo)-1]
	if len(it.todo) > 0 {
		it.todo[len(it.todo)-1].merged += p.merged + 1
		return dropped // the deletion that stands there already says it
	}
	if !it.heard() && (m != mergeKeys || !p.must) {
		return dropped
	}
	it.todo = append(it.todo, p)
	return dropped
}

// heard says whether the handler knows, or is being told, that there is an object.
func (it *item[T]) heard() bool {
	var none T
	if it.state == itemActive {
		return it.work.current != none // after that call
	}
	return it.seen != none || it.work != nil && it.work.shown != none
}

// again puts back what a handler failed at, in front of what came meanwhile.
func (it *item[T]) again(p pending[T], m merging) (dropped int) {
	later := it.todo
	it.todo = append(make([]pending[T], 0, 1+len(later)), p)
	for _, l := range later {
		dropped += it.put(l, m)
	}
	return dropped
}

// restate merges the versions that are to be told.
func (it *item[T]) restate() (dropped int) {
	versions := it.todo
	it.todo = nil
	for _, v := range versions {
		dropped += it.put(v, mergeStates)
	}
	return dropped
}

// told says what the handler is told by p, when a worker has it.
func (it *item[T]) told(p pending[T]) Told[T] {
	var none T
	e := Told[T]{
		Key: it.key, Old: it.seen, New: p.new, RV: p.rv,
		Initial: p.initial, Inferred: p.inferred, Merged: p.merged, Attempt: it.work.attempts,
	}
	switch {
	case p.resync && p.new == none:
		e.Kind, e.Old = Resync, none
	case p.new == none:
		e.Kind = Deleted
		switch {
		case p.last != none:
			e.Old = p.last
		case it.seen == none:
			e.Old = it.work.shown
		}
	case it.seen == none:
		e.Kind = Added
	case p.resync && it.seen == p.new:
		e.Kind = Resync
	default:
		e.Kind = Modified
	}
	return e
}
